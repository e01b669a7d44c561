#include "driver/simulated/memory.h"

#include <algorithm>
#include <iterator>

#include "base/units.h"

namespace gmlake {
namespace {

// Ranges and allocations live in spaces of their own, away from the addresses of recorded histories: real drivers
// hand out the first few TiB or the last ones before 128 TiB.
constexpr Address first_allocation = 32 * TiB;
constexpr Bytes allocation_span = 64 * TiB;
constexpr Address first_range = 128 * TiB;
constexpr Bytes allocation_step = 512;

// The last entry that begins at or before the address, or end.
template <typename Map>
auto at_or_before(Map& map, Address at) {
  auto next = map.upper_bound(at);
  return next == map.begin() ? map.end() : std::prev(next);
}

}  // namespace

SimulatedMemory::SimulatedMemory(Bytes capacity, Bytes granularity, Bytes address_space)
    : capacity_(capacity),
      granularity_(granularity),
      range_space_(round_up(first_range, granularity), round_down(address_space, granularity)),
      allocation_space_(first_allocation, allocation_span) {}

Status SimulatedMemory::reserve(Bytes size, Address& range) {
  if (!aligned(0, size)) return Status::invalid_value;
  const Address begin = next_range(size);
  if (begin == 0) return Status::out_of_memory;
  ranges_.emplace(begin, size);
  range = begin;
  return Status::success;
}

Status SimulatedMemory::free_range(Address range, Bytes size) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || found->second != size) return Status::invalid_value;
  const auto mapping = mappings_.lower_bound(range);
  if (mapping != mappings_.end() && mapping->first < range + size) return Status::invalid_value;
  ranges_.erase(found);
  if (range >= first_range) range_space_.give(range, size);
  return Status::success;
}

Status SimulatedMemory::create(Bytes size, Handle& handle) {
  if (!aligned(0, size)) return Status::invalid_value;
  if (size > capacity_ - used_) return Status::out_of_memory;
  used_ += size;
  handle = handles_.size();
  handles_.push_back({size, 0, false, places_ ? places_->take(size) : 0});
  ++handle_count_;
  return Status::success;
}

Status SimulatedMemory::release(Handle handle) {
  Memory* memory = memory_of(handle);
  if (memory == nullptr) return Status::invalid_value;
  memory->released = true;
  drop_if_dead(*memory);
  return Status::success;
}

Status SimulatedMemory::map(Address at, Bytes size, Handle handle) {
  Memory* memory = memory_of(handle);
  if (memory == nullptr || memory->size != size) return Status::invalid_value;
  if (!aligned(at, size) || !within_range(at, size)) return Status::invalid_value;
  // Chunks are mapped run by run: mostly this one comes right behind the last.
  const bool behind_last = last_ != mappings_.end() && last_->first < at &&
                           (std::next(last_) == mappings_.end() || std::next(last_)->first >= at);
  const auto next = behind_last ? std::next(last_) : mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + size) return Status::invalid_value;
  if (next != mappings_.begin()) {
    const auto& [begin, mapping] = *std::prev(next);
    if (begin + mapping.size > at) return Status::invalid_value;
  }
  last_ = mappings_.emplace_hint(next, at, Mapping{size, handle, false});
  ++memory->mappings;
  return Status::success;
}

Status SimulatedMemory::unmap(Address at, Bytes size, Touched& touched) {
  auto mapping = whole_mappings(at, size, touched);
  if (mapping == mappings_.end()) return Status::invalid_value;
  last_ = mappings_.end();
  for (std::uint64_t i = 0; i < touched.handles; ++i) {
    Memory& memory = handles_[mapping->second.handle];
    --memory.mappings;
    drop_if_dead(memory);
    mapping = mappings_.erase(mapping);
  }
  return Status::success;
}

Status SimulatedMemory::set_access(Address at, Bytes size, Touched& touched) {
  auto mapping = whole_mappings(at, size, touched);
  if (mapping == mappings_.end()) return Status::invalid_value;
  for (std::uint64_t i = 0; i < touched.handles; ++i, ++mapping) mapping->second.granted = true;
  return Status::success;
}

Status SimulatedMemory::allocate(Bytes size, Address& at) {
  if (size == 0) return Status::invalid_value;
  if (size > capacity_ - used_ || size > allocation_span) return Status::out_of_memory;
  const Bytes rounded = round_up(size, allocation_step);
  if (rounded > capacity_ - used_) return Status::out_of_memory;
  const Address begin = next_address(rounded);
  if (begin == 0) return Status::out_of_memory;
  used_ += rounded;
  allocations_.emplace(begin, rounded);
  if (places_) allocation_places_.emplace(begin, places_->take(rounded));
  at = begin;
  return Status::success;
}

Status SimulatedMemory::free(Address at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return Status::invalid_value;
  used_ -= found->second;
  if (places_) {
    places_->give(allocation_places_.at(at), found->second);
    allocation_places_.erase(at);
  }
  if (at >= first_allocation && at - first_allocation < allocation_span) allocation_space_.give(at, found->second);
  allocations_.erase(found);
  return Status::success;
}

void SimulatedMemory::hand_out(const std::vector<Address>& addresses) {
  handed_out_.insert(handed_out_.end(), addresses.begin(), addresses.end());
}

void SimulatedMemory::hand_out_ranges(const std::vector<Address>& addresses) {
  handed_out_ranges_.insert(handed_out_ranges_.end(), addresses.begin(), addresses.end());
}

bool SimulatedMemory::accessible(Address at, Bytes size) const {
  for (auto mapping = at_or_before(mappings_, at); size != 0; ++mapping) {
    if (mapping == mappings_.end() || mapping->first > at || at - mapping->first >= mapping->second.size) return false;
    if (!mapping->second.granted) return false;
    const Bytes covered = std::min(size, mapping->first + mapping->second.size - at);
    at += covered;
    size -= covered;
  }
  return true;
}

Handle SimulatedMemory::handle_at(Address at) const {
  const auto mapping = at_or_before(mappings_, at);
  return mapping != mappings_.end() && at - mapping->first < mapping->second.size ? mapping->second.handle : 0;
}

Bytes SimulatedMemory::offset_at(Address at) const {
  return handle_at(at) == 0 ? 0 : at - at_or_before(mappings_, at)->first;
}

std::vector<Piece> SimulatedMemory::pieces(Address at, Bytes size) const {
  std::vector<Piece> found;
  auto add = [&](Bytes place, Bytes length) {
    if (!found.empty() && found.back().place + found.back().size == place)
      found.back().size += length;
    else
      found.push_back({place, length});
  };
  if (const auto whole = at_or_before(allocations_, at);
      places_ && whole != allocations_.end() && at - whole->first < whole->second) {
    add(allocation_places_.at(whole->first) + (at - whole->first), std::min(size, whole->first + whole->second - at));
    return found;
  }
  for (auto mapping = at_or_before(mappings_, at); places_ && size != 0 && mapping != mappings_.end(); ++mapping) {
    if (mapping->first > at || at - mapping->first >= mapping->second.size) break;
    const Bytes covered = std::min(size, mapping->first + mapping->second.size - at);
    add(handles_[mapping->second.handle].place + (at - mapping->first), covered);
    at += covered;
    size -= covered;
  }
  return found;
}

bool SimulatedMemory::aligned(Address at, Bytes size) const {
  return size != 0 && size % granularity_ == 0 && at % granularity_ == 0;
}

bool SimulatedMemory::within_range(Address at, Bytes size) const {
  const auto range = at_or_before(ranges_, at);
  return range != ranges_.end() && at - range->first < range->second && size <= range->second - (at - range->first);
}

SimulatedMemory::Mappings::iterator SimulatedMemory::whole_mappings(Address at, Bytes size, Touched& touched) {
  if (!aligned(at, size) || !within_range(at, size)) return mappings_.end();
  const Address end = at + size;
  const auto first = mappings_.find(at);
  for (auto mapping = first; at != end; ++mapping) {
    if (mapping == mappings_.end() || mapping->first != at || mapping->second.size > end - at) return mappings_.end();
    ++touched.handles;
    touched.bytes += mapping->second.size;
    at += mapping->second.size;
  }
  return first;
}

bool SimulatedMemory::can_hand_out(Address at, Bytes size, const std::map<Address, Bytes>& taken) const {
  if (at == 0 || (at < first_allocation + allocation_span && first_allocation < at + size)) return false;
  if (at + size > first_range) return false;
  const auto next = taken.lower_bound(at);
  if (next != taken.end() && next->first - at < size) return false;
  if (next == taken.begin()) return true;
  const auto& [begin, length] = *std::prev(next);
  return at - begin >= length;
}

Address SimulatedMemory::next_address(Bytes size) {
  if (!handed_out_.empty()) {
    const Address at = handed_out_.front();
    handed_out_.pop_front();
    if (can_hand_out(at, size, allocations_)) return at;
  }
  return allocation_space_.take(size);
}

Address SimulatedMemory::next_range(Bytes size) {
  if (!handed_out_ranges_.empty()) {
    const Address at = handed_out_ranges_.front();
    handed_out_ranges_.pop_front();
    if (aligned(at, size) && can_hand_out(at, size, ranges_)) return at;
  }
  return range_space_.take(size);
}

SimulatedMemory::Memory* SimulatedMemory::memory_of(Handle handle) {
  if (handle >= handles_.size() || handles_[handle].size == 0 || handles_[handle].released) return nullptr;
  return &handles_[handle];
}

void SimulatedMemory::drop_if_dead(Memory& memory) {
  if (!memory.released || memory.mappings != 0) return;
  used_ -= memory.size;
  if (places_) places_->give(memory.place, memory.size);
  memory.size = 0;
  --handle_count_;
}

}  // namespace gmlake
