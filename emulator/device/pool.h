// A stream-ordered memory pool per device (cudaMallocAsync): takes memory from the device in segments, serves blocks
// from them, and gives whole free segments back when trimmed or when the device is full. A freed block serves its own
// stream at once, another stream when the work before the free is finished on emulated time.
#pragma once

#include <cstddef>

#include "device/memory.h"
#include "device/status.h"
#include "device/timeline.h"

namespace gmlake::device::pool {

struct Usage {
  std::size_t reserved = 0, reserved_peak = 0;
  std::size_t used = 0, used_peak = 0;
};

Status allocate(int device, std::size_t size, timeline::StreamHandle stream, memory::Address& at);
// not_found when the pool did not hand this address out.
Status free(memory::Address at, timeline::StreamHandle stream);
// Gives back free segments until at most so many bytes are reserved.
void trim(int device, std::size_t keep);
// Lets another device use what the pool has and will have, or not any more.
Status set_access(int device, int peer, bool granted);
Usage usage(int device);
void reset_peaks(int device);

}  // namespace gmlake::device::pool
