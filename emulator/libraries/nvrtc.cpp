// NVRTC: every program compiles, to nothing. The driver takes the result as a module with whatever functions are asked
// for, and launching them does nothing, like any kernel. Nothing of it must reach a cache that a real device reads.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, invalid_input = 3, invalid_program = 4, unknown_name = 10 };

struct Program {
  std::map<std::string, std::string> names;
};

const std::string& image() {
  static const std::string& text = *new std::string("// compiled for the emulated device\n");
  return text;
}

int size_of_image(const Program* program, std::size_t* size) {
  if (program == nullptr) return invalid_program;
  *size = image().size() + 1;
  return success;
}

int copy_image(const Program* program, char* to) {
  if (program == nullptr) return invalid_program;
  std::memcpy(to, image().c_str(), image().size() + 1);
  return success;
}

}  // namespace

GMLAKE_EXPORT const char* nvrtcGetErrorString(int status) {
  return status == success ? "NVRTC_SUCCESS" : "not supported by the emulated device's NVRTC";
}
GMLAKE_EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = cuda_version() / 1000;
  *minor = cuda_version() / 10 % 100;
  return success;
}
GMLAKE_EXPORT int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                                     const char* const*) {
  return make<Program>(program, invalid_input);
}
GMLAKE_EXPORT int nvrtcDestroyProgram(Program** program) {
  if (program == nullptr) return invalid_program;
  delete *program;
  *program = nullptr;
  return success;
}
GMLAKE_EXPORT int nvrtcCompileProgram(Program* program, int, const char* const*) {
  return program ? success : invalid_program;
}

GMLAKE_EXPORT int nvrtcAddNameExpression(Program* program, const char* expression) {
  if (program == nullptr) return invalid_program;
  std::string name = expression;
  std::replace_if(name.begin(), name.end(), [](unsigned char letter) { return !std::isalnum(letter); }, '_');
  program->names[expression] = name;
  return success;
}
GMLAKE_EXPORT int nvrtcGetLoweredName(Program* program, const char* expression, const char** name) {
  if (program == nullptr) return invalid_program;
  const auto found = program->names.find(expression);
  if (found == program->names.end()) return unknown_name;
  *name = found->second.c_str();
  return success;
}

GMLAKE_EXPORT int nvrtcGetPTXSize(Program* program, std::size_t* size) {
  return size_of_image(program, size);
}
GMLAKE_EXPORT int nvrtcGetPTX(Program* program, char* to) {
  return copy_image(program, to);
}
GMLAKE_EXPORT int nvrtcGetCUBINSize(Program* program, std::size_t* size) {
  return size_of_image(program, size);
}
GMLAKE_EXPORT int nvrtcGetCUBIN(Program* program, char* to) {
  return copy_image(program, to);
}
GMLAKE_EXPORT int nvrtcGetProgramLogSize(Program* program, std::size_t* size) {
  *size = 1;
  return program ? success : invalid_program;
}
GMLAKE_EXPORT int nvrtcGetProgramLog(Program* program, char* log) {
  *log = '\0';
  return program ? success : invalid_program;
}
