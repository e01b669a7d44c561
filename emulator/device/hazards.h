// Finds accesses to the same memory from two streams, at least one of them a write, that nothing orders: no event, no
// synchronisation. On a real device such a program gives wrong values now and then; an allocator that hands memory to
// another stream before its work is done is caught this way. Off unless configured; the timeline holds its lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/ordering.h"
#include "device/physical.h"

namespace gmlake::device::hazards {

// Work of a stream, which by now knows what `ordering` says, touches memory.
void access(StreamId stream, const Ordering& ordering, std::uintptr_t at, std::size_t size, bool write);
int found();
// The block is going away. The lock of memory is held.
void forget(const Block& block);

}  // namespace gmlake::device::hazards
