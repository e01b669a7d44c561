// Addresses and what stands behind them: reserved ranges, mappings of physical blocks, plain allocations, pinned and
// registered host memory. Refuses what the real driver refuses, with its codes, and then changes nothing. One lock for
// all of it; every function takes it, except those that say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "device/physical.h"
#include "device/status.h"

namespace gmlake::device::memory {

using Address = std::uintptr_t;
using Handle = unsigned long long;

enum class Kind { mapping, allocation, pinned, registered };

struct Range {
  std::size_t size = 0;
  Kind kind = Kind::mapping;
  int device = 0;
  Block* block = nullptr;    // null for host memory
  std::uint64_t access = 0;  // one bit per device
  std::uint64_t id = 0;

  bool host() const { return kind == Kind::pinned || kind == Kind::registered; }
};

// Virtual memory management.
Status reserve(std::size_t size, std::size_t alignment, Address& at);
Status free_range(Address at, std::size_t size);
Status create(std::size_t size, int device, int handle_types, Handle& handle);
Status release(Handle handle);
Status retain(Address at, Handle& handle);  // another handle of the block behind an address
Status map(Address at, std::size_t size, std::size_t offset, Handle handle);
Status unmap(Address at, std::size_t size);
Status set_access(Address at, std::size_t size, int device, bool granted);
Status properties(Handle handle, int& device, int& handle_types);
// Between processes: a file descriptor of the caller's, who closes it. `unseen` as in physical.h.
Status export_file(Handle handle, int& file);
Status import_file(int file, int unseen, Handle& handle);

// cuMemAlloc and its relatives.
Status allocate(std::size_t size, int device, Address& at);
Status free(Address at);
Status allocate_host(std::size_t size, Address& at);
Status free_host(Address at);
Status register_host(Address at, std::size_t size);
Status unregister_host(Address at);
// Memory of another process, mapped here; `file` is ours from now on.
Status open_shared(int file, off_t offset, std::size_t size, int device, Address& at);

// What an address belongs to; false if to nothing of the device's.
bool describe(Address at, Address& base, Range& range);
// success, or illegal_address if a part of the span is device address space without access. Plain host memory passes.
Status accessible(Address at, std::size_t size);
// Whether one of the devices that two places belong to may use both. What was not mapped is open to all.
bool common_access(Address first, Address second);

// One piece of a span that lies in one block.
struct Piece {
  Block* block;
  std::size_t offset;  // in the block
  Address at;
  std::size_t size;
};
// The pieces of a span that are device memory. The lock is held by the caller: see lock().
std::vector<Piece> pieces(Address at, std::size_t size);
std::mutex& lock();

// For the report at exit.
struct Census {
  std::size_t handles, ranges, mappings, allocations, pinned, bytes;
};
Census census();

}  // namespace gmlake::device::memory
