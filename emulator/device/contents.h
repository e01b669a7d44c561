// The bytes of device memory. Copies and fills up to the data limit are carried out, larger ones only account. What was
// never written reads as zero, and so does memory that an allocator hands out again (fresh), because kernels do nothing
// and stale bytes would lead a program astray.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/memory.h"
#include "device/status.h"

namespace gmlake::device::contents {

using memory::Address;

// Copies now, between any two kinds of memory. Fails with illegal_address, and then copies nothing.
Status move(Address to, Address from, std::size_t size);
// Repeats a pattern of 1, 2 or 4 bytes.
Status fill(Address at, std::uint32_t pattern, std::size_t width, std::size_t count);
// What was written there is gone.
void fresh(Address at, std::size_t size);
// Somebody wrote there without a copy: an operator of shadow compute.
void written(Address at, std::size_t size);

// The block is going away. The lock of memory is held.
void forget(const Block& block);

// Called after every copy from device to host; no lock is held.
using Observer = void (*)(const void* source, std::size_t size);
void observe(Observer observer);

}  // namespace gmlake::device::contents
