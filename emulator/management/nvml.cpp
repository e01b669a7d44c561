// NVML: what PyTorch and its users read about the cards: how many, their names, memory, and which processes use them.
// It knows nothing of CUDA_VISIBLE_DEVICES: devices are the machine's here.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "device/device.h"

using namespace gmlake::device;

namespace {

using Result = int;
constexpr Result invalid_argument = 2;
constexpr Result not_supported = 3;

// Handles are device numbers plus one, so that null is none.
void* handle_of(int device) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(device) + 1);
}
int device_of(const void* handle) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1;
}

bool present(int device) {
  return device >= 0 && device < configuration().count;
}

struct Memory {
  unsigned long long total, free, used;
};

struct Process {
  unsigned id;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  Result status;
  unsigned clique;
  unsigned char state;
};

}  // namespace

GMLAKE_EXPORT Result nvmlInit_v2() {
  return 0;
}
GMLAKE_EXPORT Result nvmlInit() {
  return 0;
}
GMLAKE_EXPORT Result nvmlInitWithFlags(unsigned) {
  return 0;
}
GMLAKE_EXPORT Result nvmlShutdown() {
  return 0;
}
GMLAKE_EXPORT const char* nvmlErrorString(Result result) {
  switch (result) {
    case 0:
      return "Success";
    case invalid_argument:
      return "Invalid Argument";
    case not_supported:
      return "Not Supported";
    default:
      return "Unknown Error";
  }
}
GMLAKE_EXPORT Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}
GMLAKE_EXPORT Result nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}
GMLAKE_EXPORT Result nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "emulated");
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(configuration().count);
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}
GMLAKE_EXPORT Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (!present(static_cast<int>(index))) return invalid_argument;
  *handle = handle_of(static_cast<int>(index));
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetHandleByIndex(unsigned index, void** handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
GMLAKE_EXPORT Result nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** handle) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2 || bus == 0) return invalid_argument;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, handle);
}
GMLAKE_EXPORT Result nvmlDeviceGetHandleByUUID(const char* text, void** handle) {
  for (int device = 0; device < configuration().count; ++device)
    if (visible::uuid(device) == text) return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(device), handle);
  return invalid_argument;
}
GMLAKE_EXPORT Result nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "%s", visible::uuid(device_of(handle)).c_str());
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetName(void* handle, char* text, unsigned size) {
  if (!present(device_of(handle))) return invalid_argument;
  std::snprintf(text, size, "%s", configuration().name.c_str());
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetIndex(void* handle, unsigned* index) {
  *index = static_cast<unsigned>(device_of(handle));
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  if (!present(device_of(handle))) return invalid_argument;
  memory->total = configuration().memory;
  memory->free = capacity::free(device_of(handle));
  memory->used = memory->total - memory->free;
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, Process* processes) {
  if (!present(device_of(handle))) return invalid_argument;
  constexpr Result too_small = 7;
  const std::size_t used = capacity::used(device_of(handle));
  if (used == 0) {
    *count = 0;
    return 0;
  }
  const bool room = *count > 0 && processes != nullptr;
  *count = 1;
  if (!room) return too_small;
  processes[0] = {static_cast<unsigned>(getpid()), used, ~0u, ~0u};
  return 0;
}
GMLAKE_EXPORT Result nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, Process* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, processes);
}
GMLAKE_EXPORT Result nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
  *status = 0;
  return 0;
}
// No fabric, said as the driver says it of a card without: the call succeeds, the state is "not supported".
GMLAKE_EXPORT Result nvmlDeviceGetGpuFabricInfoV(void* handle, FabricInfo* info) {
  if (!present(device_of(handle))) return invalid_argument;
  *info = {info->version, {}, 0, 0, 0};
  return 0;
}
// No NVLink either: callers take another way.
GMLAKE_EXPORT Result nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return not_supported;
}
GMLAKE_EXPORT Result nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return not_supported;
}
