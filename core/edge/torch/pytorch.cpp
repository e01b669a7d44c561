#include "edge/torch/pytorch.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <typeinfo>

#include "edge/torch/old_strings.h"

namespace gmlake::pytorch {
namespace {

// c10::Device, as it is passed by value.
struct Device {
  signed char type, index;
};
constexpr signed char cuda = 1;

using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, Device);
using ReportOutOfMemory = void (*)(std::int64_t, std::size_t, std::size_t, Device);
using Profiling = bool (*)();
using Construct = void (*)(void* error, SourceLocation, std::string message);

constexpr const char* report_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

struct Library {
  Report report = nullptr;
  bool always = false;  // the report goes to somebody who stands before PyTorch's library
  ReportOutOfMemory report_out_of_memory = nullptr;
  Profiling profiling = nullptr;
  Construct construct = nullptr;
  void* construct_old = nullptr;  // the same where PyTorch was built with strings of an older form
  std::type_info* type = nullptr;
};

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define OLD_STRING "Ss"

template <typename Symbol>
void find(void* library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(dlsym(library, name));
}

// c10::OutOfMemoryError adds nothing to c10::Error but its type, by which it is caught: where it has no constructor of
// its own in the library, that of its base does.
void find_error(void* c10, Library& found) {
  find(c10, "_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationE" STRING, found.construct);
  if (found.construct == nullptr) find(c10, "_ZN3c105ErrorC1ENS_14SourceLocationE" STRING, found.construct);
  if (found.construct == nullptr) find(c10, "_ZN3c105ErrorC1ENS_14SourceLocationE" OLD_STRING, found.construct_old);
  for (const char* name : {"libc10.so", "libc10_cuda.so"}) {
    void* const library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
    if (library != nullptr && found.type == nullptr) find(library, "_ZTIN3c1016OutOfMemoryErrorE", found.type);
  }
}

Library load() {
  Library found;
  // PyTorch loads its libraries for itself alone, so that only a handle finds what is in them.
  void* const c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  if (c10 == nullptr) return found;
  find(c10, report_name, found.report);
  find(c10, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", found.report_out_of_memory);
  find(c10, "_ZN3c1022memoryProfilingEnabledEv", found.profiling);
  find_error(c10, found);
  Report first = nullptr;
  find(RTLD_DEFAULT, report_name, first);
  if (first != nullptr && first != found.report) {
    found.report = first;
    found.always = true;
  }
  return found;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

Device as_device(int device) {
  return {cuda, static_cast<signed char>(device)};
}

// c10::Error has had from 130 to 200 bytes over the years; nobody asks for the size but the allocation.
constexpr std::size_t ample = 1024;

void destroy(void* error) {
  static_cast<std::exception*>(error)->~exception();  // virtual, and the base comes first
}

}  // namespace

bool wants_reports() {
  const Library& torch = library();
  return torch.report != nullptr && (torch.always || torch.profiling == nullptr || torch.profiling());
}

void report(void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved, int device) {
  library().report(block, bytes, allocated, reserved, as_device(device));
}

void report_out_of_memory(std::int64_t bytes, std::size_t allocated, std::size_t reserved, int device) {
  const Library& torch = library();
  if (torch.report_out_of_memory != nullptr && torch.profiling != nullptr && torch.profiling())
    torch.report_out_of_memory(bytes, allocated, reserved, as_device(device));
}

void throw_out_of_memory(const std::string& message) {
  const Library& torch = library();
  const bool known = torch.construct != nullptr || torch.construct_old != nullptr;
  if (!known || torch.type == nullptr) throw std::runtime_error(message);
  const SourceLocation here{"allocate", "gmlake", 0};
  void* const error = abi::__cxa_allocate_exception(ample);
  try {
    if (torch.construct != nullptr)
      torch.construct(error, here, message);
    else
      construct_with_old_string(torch.construct_old, error, here, message.c_str());
  } catch (...) {
    abi::__cxa_free_exception(error);
    throw;
  }
  abi::__cxa_throw(error, torch.type, &destroy);
}

}  // namespace gmlake::pytorch
