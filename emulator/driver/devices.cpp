// Driver entry points about devices, contexts, errors and the look-up of entry points by name.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "driver/abi.h"

using namespace gmlake::device;
using namespace gmlake::driver;

namespace {

constexpr int api_version = 13000;
char contexts[most_devices];
thread_local std::vector<Context> stack;
constexpr unsigned most_limits = 16;
std::atomic<std::size_t> limits[most_limits] = {1024, 1 << 20, 8 << 20};

int device_of(Context context) {
  return static_cast<int>(static_cast<char*>(context) - contexts);
}

bool is_context(Context context) {
  const auto at = reinterpret_cast<std::uintptr_t>(context), begin = reinterpret_cast<std::uintptr_t>(contexts);
  return at >= begin && at < begin + static_cast<std::uintptr_t>(visible::count());
}

}  // namespace

namespace gmlake::driver {

Context context_of(int device) {
  return &contexts[device];
}

namespace {

// What differs between generations, from CUDA's table of compute capabilities.
struct Generation {
  int threads, shared, shared_per_block;  // of a multiprocessor; the most that one block can ask for
  int blocks;
};

Generation generation() {
  const int capability = configuration().capability_major * 10 + configuration().capability_minor;
  if (capability < 80) return {1024, 65536, 65536, 16};
  if (capability == 80) return {2048, 167936, 166912, 32};
  if (capability < 90 || capability >= 120) return {1536, 102400, 101376, 24};
  return {2048, 233472, 232448, 32};
}

}  // namespace

// Numbers of CUdevice_attribute. Limits that no program here depends on have the values of recent data-centre cards.
int attribute(int number, int device) {
  const Configuration& card = configuration();
  switch (number) {
    case 1:
    case 2:
    case 3:
    case 111:
      return 1024;  // threads per block, block x and y; reserved shared memory
    case 4:
      return 64;  // block z
    case 5:
    case 11:
      return 2147483647;  // grid x, pitch
    case 6:
    case 7:
      return 65535;  // grid y and z
    case 8:
      return 49152;  // shared memory per block
    case 9:
    case 12:
    case 82:
      return 65536;  // constant memory, registers per block and per multiprocessor
    case 10:
      return 32;  // warp
    case 13:
      return card.clock_khz;
    case 14:
      return 512;  // texture alignment
    case 15:       // overlap
    case 19:       // mapping of host memory
    case 31:       // concurrent kernels
    case 41:       // unified addressing
    case 78:       // stream priorities
    case 79:       // caching in L1, of global memory
    case 80:       // and of local memory
    case 83:       // managed memory
    case 90:       // preemption
    case 91:       // pointers to registered host memory
    case 95:       // cooperative launch
    case 99:       // registration of host memory
    case 115:      // memory pools
      return 1;
    case 102:  // virtual memory management
    case 103:  // export as file descriptors
      return card.virtual_memory ? 1 : 0;
    case 16:
      return card.multiprocessors;
    case 33:
      return visible::physical(device) + 1;  // bus
    case 36:
      return card.memory_clock_khz;
    case 37:
      return card.bus_width;
    case 38:
      return static_cast<int>(card.l2_bytes);
    case 39:
      return generation().threads;
    case 40:
      return 3;  // copy engines
    case 75:
      return card.capability_major;
    case 76:
      return card.capability_minor;
    case 81:
      return generation().shared;
    case 97:
      return generation().shared_per_block;
    case 106:
      return generation().blocks;
    case 119:
      return file_descriptor;  // handle types of memory pools
    default:
      return 0;
  }
}

bool launchable(Dimensions grid, Dimensions block) {
  const auto within = [](unsigned count, int limit) {
    return count >= 1 && count <= static_cast<unsigned>(attribute(limit, 0));
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return within(grid.x, 5) && within(grid.y, 6) && within(grid.z, 7) && within(block.x, 2) && within(block.y, 3) &&
         within(block.z, 4) && threads <= static_cast<unsigned>(attribute(1, 0));
}

}  // namespace gmlake::driver

GMLAKE_EXPORT Result cuInit(unsigned) {
  return visible::count() > 0 ? 0 : code(Status::no_device);
}

GMLAKE_EXPORT Result cuDriverGetVersion(int* version) {
  *version = api_version;
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGetCount(int* count) {
  *count = visible::count();
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGet(Device* device, int ordinal) {
  if (!exists(ordinal)) return code(Status::invalid_device);
  *device = ordinal;
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGetName(char* name, int size, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  std::snprintf(name, static_cast<std::size_t>(size), "%s", configuration().name.c_str());
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  std::memcpy(uuid->bytes, "gmlake emulated", 15);
  uuid->bytes[15] = static_cast<char>(visible::physical(device));
  return 0;
}
GMLAKE_EXPORT Result cuDeviceGetUuid(Uuid* uuid, Device device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

GMLAKE_EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  *bytes = configuration().memory;
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGetPCIBusId(char* text, int size, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", visible::physical(device) + 1);
  return 0;
}

GMLAKE_EXPORT Result cuDeviceGetAttribute(int* value, int number, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  *value = attribute(number, device);
  return 0;
}

GMLAKE_EXPORT Result cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  if (!exists(device) || !exists(peer)) return code(Status::invalid_device);
  *can = peers::reachable(device, peer);
  return 0;
}

GMLAKE_EXPORT Result cuGetErrorString(Result result, const char** text) {
  *text = description(result);
  return *text == nullptr ? code(Status::invalid_value) : 0;
}

GMLAKE_EXPORT Result cuGetErrorName(Result result, const char** text) {
  *text = driver_name(result);
  return *text == nullptr ? code(Status::invalid_value) : 0;
}

GMLAKE_EXPORT Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (!exists(device)) return code(Status::invalid_device);
  *context = context_of(device);
  return 0;
}

GMLAKE_EXPORT Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return exists(device) ? 0 : code(Status::invalid_device);
}

GMLAKE_EXPORT Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  if (!exists(device)) return code(Status::invalid_device);
  if (flags != nullptr) *flags = 0;
  if (active != nullptr) *active = 1;
  return 0;
}

GMLAKE_EXPORT Result cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned) {
  return exists(device) ? 0 : code(Status::invalid_device);
}

GMLAKE_EXPORT Result cuCtxGetCurrent(Context* context) {
  *context = context_of(current_device());
  return 0;
}

GMLAKE_EXPORT Result cuCtxSetCurrent(Context context) {
  if (context == nullptr) return 0;  // nothing bound: the next call binds the primary context again
  if (!is_context(context)) return code(Status::invalid_context);
  timeline::set_device(device_of(context));
  return 0;
}

GMLAKE_EXPORT Result cuCtxPushCurrent_v2(Context context) {
  if (!is_context(context)) return code(Status::invalid_context);
  stack.push_back(context_of(current_device()));
  return cuCtxSetCurrent(context);
}

GMLAKE_EXPORT Result cuCtxPopCurrent_v2(Context* context) {
  if (context != nullptr) *context = context_of(current_device());
  if (stack.empty()) return code(Status::invalid_context);
  const Result result = cuCtxSetCurrent(stack.back());
  stack.pop_back();
  return result;
}

GMLAKE_EXPORT Result cuCtxGetDevice(Device* device) {
  *device = current_device();
  return 0;
}

GMLAKE_EXPORT Result cuCtxSynchronize() {
  return code(timeline::synchronize_device(current_device()));
}

GMLAKE_EXPORT Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = timeline::least_priority;
  if (greatest != nullptr) *greatest = timeline::greatest_priority;
  return 0;
}

// Limits (stack, printf, heap) belong to kernels: what is set is what is read again.
GMLAKE_EXPORT Result cuCtxSetLimit(unsigned limit, std::size_t value) {
  if (limit >= most_limits) return code(Status::invalid_value);
  limits[limit].store(value);
  return 0;
}
GMLAKE_EXPORT Result cuCtxGetLimit(std::size_t* value, unsigned limit) {
  if (limit >= most_limits) return code(Status::invalid_value);
  *value = limits[limit].load();
  return 0;
}

// The newest version of a function that we have, whatever version is asked for: none of those here changed its
// signature since CUDA 12. The result says 0: found, 1: no such symbol.
GMLAKE_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t, int* found) {
  static void* const self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  }();
  *function = nullptr;
  for (const char* version : {"_v3", "_v2", ""}) {
    *function = dlsym(self, (std::string(symbol) + version).c_str());
    if (*function != nullptr) break;
  }
  if (found != nullptr) *found = *function == nullptr ? 1 : 0;
  return *function == nullptr ? code(Status::not_found) : 0;
}

GMLAKE_EXPORT Result cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
