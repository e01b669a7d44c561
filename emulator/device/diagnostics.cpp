// See diagnostics.h.
#include "device/diagnostics.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>

#include "device/configuration.h"

namespace gmlake::device {
namespace {

void note(const char* symbol) {
  if (configuration().session.empty()) return;
  const std::string path = configuration().session + "/unimplemented-" + std::to_string(getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s\n", symbol);
    std::fclose(file);
  }
}

}  // namespace

void say(const char* format, ...) {
  char line[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "gmlake device: %s\n", line);
}

}  // namespace gmlake::device

int gmlake_device_unimplemented(const char* symbol, int code) {
  static std::mutex& lock = *new std::mutex;
  static std::set<std::string>& seen = *new std::set<std::string>;
  std::lock_guard guard(lock);
  if (seen.insert(symbol).second) {
    gmlake::device::say("%s is not emulated", symbol);
    gmlake::device::note(symbol);
  }
  return code;
}

int gmlake_device_noop(const char*) {
  return 0;
}
