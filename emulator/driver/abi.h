// The part of the CUDA driver's binary interface that is emulated: layouts and constants as documented for CUDA 12 and
// 13. Declared here, apart from the core's own declaration of what it calls, so that one checks the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace gmlake::driver {

using Result = int;
using Device = int;
using Pointer = unsigned long long;
using Context = void*;
using Stream = void*;
using Event = void*;
using Graph = void*;

struct Uuid {
  char bytes[16];
};

struct Location {
  int type;  // 1: device, 2: host
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;  // 1: a file descriptor, 8: fabric
  Location location;
  void* win32_metadata;
  unsigned char flags[8];
};
static_assert(sizeof(AllocationProperties) == 32);

struct AccessDescription {
  Location location;
  int flags;  // 0: none, 1: read, 3: read and write
};

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start = 11,
  range_size = 12,
  mapped = 13,
};

inline constexpr int on_host = 1;
inline constexpr int on_device = 2;
inline constexpr int file_descriptor = 1;

inline Result code(device::Status status) {
  return static_cast<Result>(status);
}

// One attribute of a card, by CUDA's number; 0 for those that it does not have.
int attribute(int number, int device);
// Whether a kernel can be launched in that many blocks of that many threads, by CUDA's limits.
struct Dimensions {
  unsigned x, y, z;
};
bool launchable(Dimensions grid, Dimensions block);
// The context of a device: a token, since a process has one per device and no state in it.
Context context_of(int device);

}  // namespace gmlake::driver
