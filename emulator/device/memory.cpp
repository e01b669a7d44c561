// See memory.h. Device addresses are host addresses: a reservation is address space without access, a mapping puts the
// block's part of the sparse file there, and access makes it readable and writable, so that a stray touch by the host
// program ends in a segmentation fault at the place where it happens.
#include "device/memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "device/configuration.h"
#include "device/contents.h"
#include "device/diagnostics.h"
#include "device/visible.h"

namespace gmlake::device::memory {
namespace {

struct State {
  std::mutex lock;
  std::map<Address, std::size_t> reservations;
  std::map<Address, Range> ranges;
  std::unordered_map<Handle, Block*> handles;
  Handle next_handle = 1;
  std::uint64_t next_id = 1;
};

State& state() {
  static State& alive = *new State;  // never destroyed: memory is freed while the process ends
  return alive;
}

using Ranges = std::map<Address, Range>;

Ranges::iterator range_at(Address at) {
  Ranges& ranges = state().ranges;
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return ranges.end();
  const auto found = std::prev(next);
  return at < found->first + found->second.size ? found : ranges.end();
}

bool reserved(Address at, std::size_t size) {
  const auto& reservations = state().reservations;
  auto next = reservations.upper_bound(at);
  if (next == reservations.begin()) return false;
  const auto found = std::prev(next);
  return at + size <= found->first + found->second && at + size > at;
}

bool anything_mapped(Address at, std::size_t size) {
  const auto next = state().ranges.lower_bound(at);
  return range_at(at) != state().ranges.end() || (next != state().ranges.end() && next->first < at + size);
}

// Calls back for each mapping if [at, at + size) consists of whole mappings without a gap.
bool whole_mappings(Address at, std::size_t size, const std::function<void(Address, Range&)>& each) {
  const Address end = at + size;
  for (Address next = at; next < end;) {
    const auto found = state().ranges.find(next);
    if (found == state().ranges.end() || found->second.kind != Kind::mapping) return false;
    next += found->second.size;
    if (next > end) return false;
    if (each) each(found->first, found->second);
  }
  return size > 0;
}

Address address_space(std::size_t size, std::size_t alignment) {
  if (size + alignment < size) return 0;
  void* got = mmap(nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 0;
  const Address begin = reinterpret_cast<Address>(got);
  const Address at = (begin + alignment - 1) / alignment * alignment;
  if (at > begin) munmap(got, at - begin);
  const std::size_t tail = begin + alignment - at;
  if (tail > 0) munmap(reinterpret_cast<void*>(at + size), tail);
  return at;
}

void empty_again(Address at, std::size_t size) {
  mmap(reinterpret_cast<void*>(at), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool place(Address at, std::size_t size, const Block& block, int protection) {
  void* wanted = reinterpret_cast<void*>(at);
  if (mmap(wanted, size, protection, MAP_SHARED | MAP_FIXED, block.file, block.offset) == wanted) return true;
  if (errno == ENOMEM) say("the host allows no more mappings: raise vm.max_map_count (sysctl) to emulate this many");
  return false;
}

Status refuse_plain(Block* block, Status status) {
  settle(block);
  return status;
}

// Maps a whole block at fresh addresses as an allocation that every device may use.
Status hand_out(Block* block, std::size_t size, Address& at) {
  const Address begin = address_space(block->size, granularity);
  if (begin == 0) return refuse_plain(block, Status::out_of_memory);
  if (!place(begin, block->size, *block, PROT_READ | PROT_WRITE)) {
    munmap(reinterpret_cast<void*>(begin), block->size);
    return refuse_plain(block, Status::out_of_memory);
  }
  block->mappings = 1;
  state().ranges[begin] = {size, Kind::allocation, block->device, block, ~std::uint64_t{0}, state().next_id++};
  at = begin;
  return Status::success;
}

std::size_t rounded(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

}  // namespace

std::mutex& lock() {
  return state().lock;
}

Status reserve(std::size_t size, std::size_t alignment, Address& at) {
  if (size == 0 || size % granularity != 0 || (alignment & (alignment - 1)) != 0) return Status::invalid_value;
  std::lock_guard guard(lock());
  at = address_space(size, std::max(alignment, granularity));
  if (at == 0) return Status::out_of_memory;
  state().reservations[at] = size;
  return Status::success;
}

Status free_range(Address at, std::size_t size) {
  std::lock_guard guard(lock());
  const auto found = state().reservations.find(at);
  if (found == state().reservations.end() || found->second != size) return Status::invalid_value;
  if (anything_mapped(at, size)) return Status::invalid_value;
  munmap(reinterpret_cast<void*>(at), size);
  state().reservations.erase(found);
  return Status::success;
}

Status create(std::size_t size, int device, int handle_types, Handle& handle) {
  if (size == 0 || size % granularity != 0) return Status::invalid_value;
  if (visible::count() == 0) return Status::no_device;
  std::lock_guard guard(lock());
  Block* block = make_block(size, device, handle_types);
  if (block == nullptr) return Status::out_of_memory;
  block->handles = 1;
  handle = state().next_handle++;
  state().handles[handle] = block;
  return Status::success;
}

Status release(Handle handle) {
  std::lock_guard guard(lock());
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return Status::invalid_value;
  Block* block = found->second;
  state().handles.erase(found);
  --block->handles;
  settle(block);
  return Status::success;
}

Status retain(Address at, Handle& handle) {
  std::lock_guard guard(lock());
  const auto found = range_at(at);
  if (found == state().ranges.end() || found->second.kind != Kind::mapping) return Status::invalid_value;
  ++found->second.block->handles;
  handle = state().next_handle++;
  state().handles[handle] = found->second.block;
  return Status::success;
}

Status map(Address at, std::size_t size, std::size_t offset, Handle handle) {
  std::lock_guard guard(lock());
  const auto found = state().handles.find(handle);
  if (found == state().handles.end() || at % granularity != 0) return Status::invalid_value;
  Block* block = found->second;
  if (offset != 0 || size != block->size) return Status::invalid_value;  // whole handles only
  if (!reserved(at, size) || anything_mapped(at, size)) return Status::invalid_value;
  if (!place(at, size, *block, PROT_NONE)) return Status::out_of_memory;
  ++block->mappings;
  state().ranges[at] = {size, Kind::mapping, block->device, block, 0, state().next_id++};
  return Status::success;
}

Status unmap(Address at, std::size_t size) {
  std::lock_guard guard(lock());
  std::vector<Address> mappings;
  if (!whole_mappings(at, size, [&](Address begin, Range&) { mappings.push_back(begin); }))
    return Status::invalid_value;
  empty_again(at, size);
  for (const Address begin : mappings) {
    const auto found = state().ranges.find(begin);
    --found->second.block->mappings;
    settle(found->second.block);
    state().ranges.erase(found);
  }
  return Status::success;
}

Status set_access(Address at, std::size_t size, int device, bool granted) {
  std::lock_guard guard(lock());
  if (!whole_mappings(at, size, nullptr)) return Status::invalid_value;
  const std::uint64_t bit = std::uint64_t{1} << device;
  bool any = false;
  whole_mappings(at, size, [&](Address, Range& range) {
    range.access = granted ? range.access | bit : range.access & ~bit;
    any = any || range.access != 0;
  });
  const int protection = any ? PROT_READ | PROT_WRITE : PROT_NONE;
  return mprotect(reinterpret_cast<void*>(at), size, protection) == 0 ? Status::success : Status::out_of_memory;
}

Status properties(Handle handle, int& device, int& handle_types) {
  std::lock_guard guard(lock());
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return Status::invalid_value;
  device = found->second->device;
  handle_types = std::max(found->second->handle_types, 0);
  return Status::success;
}

Status export_file(Handle handle, int& file) {
  std::lock_guard guard(lock());
  const auto found = state().handles.find(handle);
  if (found == state().handles.end() || found->second->handle_types == 0) return Status::invalid_value;
  file = export_block(*found->second);
  return file < 0 ? Status::out_of_memory : Status::success;
}

Status import_file(int file, int unseen, Handle& handle) {
  std::lock_guard guard(lock());
  Block* block = import_block(file, unseen);
  if (block == nullptr) return Status::invalid_value;
  block->handles = 1;
  handle = state().next_handle++;
  state().handles[handle] = block;
  return Status::success;
}

Status allocate(std::size_t size, int device, Address& at) {
  if (size == 0) return Status::invalid_value;
  if (visible::count() == 0) return Status::no_device;
  if (size > configuration().memory) return Status::out_of_memory;
  std::lock_guard guard(lock());
  // The driver rounds to its granularity as well.
  Block* block = make_block(rounded(size, granularity), device, 0);
  return block == nullptr ? Status::out_of_memory : hand_out(block, size, at);
}

Status free(Address at) {
  std::lock_guard guard(lock());
  const auto found = state().ranges.find(at);
  if (found == state().ranges.end() || found->second.kind != Kind::allocation) return Status::invalid_value;
  Block* block = found->second.block;
  munmap(reinterpret_cast<void*>(at), block->size);
  state().ranges.erase(found);
  --block->mappings;
  settle(block);
  return Status::success;
}

Status open_shared(int file, off_t offset, std::size_t size, int device, Address& at) {
  std::lock_guard guard(lock());
  return hand_out(adopt_block(file, offset, rounded(size, granularity), device), size, at);
}

Status allocate_host(std::size_t size, Address& at) {
  if (size == 0) return Status::invalid_value;
  const std::size_t whole = rounded(size, 4096);
  // Without reservation: pinned buffers of an emulated job may be larger than this machine, and mostly stay untouched.
  void* got = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return Status::out_of_memory;
  std::lock_guard guard(lock());
  at = reinterpret_cast<Address>(got);
  state().ranges[at] = {whole, Kind::pinned, 0, nullptr, ~std::uint64_t{0}, state().next_id++};
  return Status::success;
}

Status free_host(Address at) {
  std::lock_guard guard(lock());
  const auto found = state().ranges.find(at);
  if (found == state().ranges.end() || found->second.kind != Kind::pinned) return Status::invalid_value;
  munmap(reinterpret_cast<void*>(at), found->second.size);
  state().ranges.erase(found);
  return Status::success;
}

Status register_host(Address at, std::size_t size) {
  if (at == 0 || size == 0) return Status::invalid_value;
  std::lock_guard guard(lock());
  if (anything_mapped(at, size)) return Status::host_memory_already_registered;
  state().ranges[at] = {size, Kind::registered, 0, nullptr, ~std::uint64_t{0}, state().next_id++};
  return Status::success;
}

Status unregister_host(Address at) {
  std::lock_guard guard(lock());
  const auto found = state().ranges.find(at);
  if (found == state().ranges.end() || found->second.kind != Kind::registered)
    return Status::host_memory_not_registered;
  state().ranges.erase(found);
  return Status::success;
}

bool describe(Address at, Address& base, Range& range) {
  std::lock_guard guard(lock());
  const auto found = range_at(at);
  if (found == state().ranges.end()) return false;
  base = found->first;
  range = found->second;
  return true;
}

Status accessible(Address at, std::size_t size) {
  std::lock_guard guard(lock());
  for (const Address end = at + size; at < end;) {
    const auto found = range_at(at);
    if (found == state().ranges.end()) return reserved(at, 1) ? Status::illegal_address : Status::success;
    if (found->second.access == 0) return Status::illegal_address;
    const Address next = found->first + found->second.size;
    // Beyond a plain allocation lies whatever the host has there: a copy that runs over its end is a bug.
    if (next < end && found->second.kind == Kind::allocation && range_at(next) == state().ranges.end())
      return Status::illegal_address;
    at = next;
  }
  return Status::success;
}

bool common_access(Address first, Address second) {
  std::lock_guard guard(lock());
  const auto one = range_at(first), other = range_at(second);
  if (one == state().ranges.end() || other == state().ranges.end()) return true;
  const Range &a = one->second, &b = other->second;
  if (a.device == b.device || a.access == 0 || b.access == 0) return true;  // without any access: an illegal address
  const std::uint64_t owners = std::uint64_t{1} << a.device | std::uint64_t{1} << b.device;
  return (a.access & b.access & owners) != 0;
}

std::vector<Piece> pieces(Address at, std::size_t size) {
  std::vector<Piece> result;
  for (const Address end = at + size; at < end;) {
    const auto found = range_at(at);
    if (found == state().ranges.end()) break;
    const Address next = std::min(end, found->first + found->second.size);
    if (found->second.block != nullptr) result.push_back({found->second.block, at - found->first, at, next - at});
    at = next;
  }
  return result;
}

Census census() {
  std::lock_guard guard(lock());
  Census result{state().handles.size(), state().reservations.size(), 0, 0, 0, live_bytes()};
  for (const auto& [at, range] : state().ranges) {
    if (range.kind == Kind::mapping) ++result.mappings;
    if (range.kind == Kind::allocation) ++result.allocations;
    if (range.kind == Kind::pinned) ++result.pinned;
  }
  return result;
}

}  // namespace gmlake::device::memory
