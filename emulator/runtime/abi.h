// The part of the CUDA runtime's binary interface that is emulated, as documented for CUDA 13, and the error state that
// cudaGetLastError reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "driver/abi.h"

namespace gmlake::runtime {

using Error = int;
using Stream = void*;
using Event = void*;
using driver::Dimensions;

struct PointerAttributes {
  int type;  // 0: not known, 1: host, 2: device, 3: managed
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

struct FunctionAttributes {
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int threads_per_block, registers, ptx_version, binary_version, cache_mode, dynamic_shared_bytes, carve_out;
  int cluster[5];
  int non_portable_cluster;
  int reserved[16];
};

struct LaunchConfiguration {
  Dimensions grid, block;
  std::size_t shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

// What identifies memory or an event to another process.
struct SharedHandle {
  char bytes[64];
};

// Remembers a failure for cudaGetLastError; not being ready is none.
Error result(device::Status status);
Error last_error(bool clear);

}  // namespace gmlake::runtime
