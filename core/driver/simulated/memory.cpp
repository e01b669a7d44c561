#include "driver/simulated/memory.h"

#include <algorithm>
#include <bit>
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
auto at_or_before(auto& map, Address at) {
  auto next = map.upper_bound(at);
  return next == map.begin() ? map.end() : std::prev(next);
}

}  // namespace

SimulatedMemory::SimulatedMemory(Bytes capacity, Bytes granularity, Bytes address_space)
    : capacity_(capacity),
      granularity_(granularity),
      shift_(std::has_single_bit(granularity) ? std::countr_zero(granularity) : 0),
      range_space_(round_up(first_range, granularity), round_down(address_space, granularity)),
      allocation_space_(first_allocation, allocation_span) {}

Status SimulatedMemory::reserve(Bytes size, Address& range) {
  if (!aligned(0, size)) return Status::invalid_value;
  const Address begin = next_range(size);
  if (begin == 0) return Status::out_of_memory;
  ranges_.emplace(begin, Span{.size = size});
  range = begin;
  return Status::success;
}

Status SimulatedMemory::free_range(Address range, Bytes size) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || found->second.size != size || found->second.mappings != 0) return Status::invalid_value;
  if (last_range_ == found) last_range_ = ranges_.end();
  ranges_.erase(found);
  if (range >= first_range) range_space_.give(range, size);
  return Status::success;
}

Status SimulatedMemory::create(Bytes size, Handle& handle) {
  if (!aligned(0, size)) return Status::invalid_value;
  if (size > capacity_ - used_) return Status::out_of_memory;
  used_ += size;
  handle = handles_.size();
  handles_.push_back({.size = size, .granules = granules(size), .place = places_ ? places_->take(size) : 0});
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
  Span* range = aligned(at, size) ? range_of(at, size) : nullptr;
  const Mappings::Number number = granules(at);
  if (range == nullptr || !mappings_.empty(number, memory->granules)) return Status::invalid_value;
  mappings_.add(number, memory->granules, handle);
  ++memory->mappings;
  ++range->mappings;
  return Status::success;
}

Status SimulatedMemory::unmap(Address at, Bytes size, Touched& touched) {
  Span* range = aligned(at, size) ? range_of(at, size) : nullptr;
  if (range == nullptr || !filled(at, size, touched)) return Status::invalid_value;
  range->mappings -= touched.handles;
  each_mapping(at, size, [this](Mappings::Number number, Memory& memory) {
    mappings_.erase(number, memory.granules);
    --memory.mappings;
    drop_if_dead(memory);
  });
  return Status::success;
}

Status SimulatedMemory::set_access(Address at, Bytes size, Touched& touched) {
  if (!aligned(at, size) || range_of(at, size) == nullptr || !filled(at, size, touched)) return Status::invalid_value;
  each_mapping(at, size, [this](Mappings::Number number, const Memory&) { mappings_.grant(number); });
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
  allocations_.emplace(begin, Span{.size = rounded, .place = places_ ? places_->take(rounded) : 0});
  at = begin;
  return Status::success;
}

Status SimulatedMemory::free(Address at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return Status::invalid_value;
  const Span span = found->second;
  used_ -= span.size;
  if (places_) places_->give(span.place, span.size);
  if (at >= first_allocation && at - first_allocation < allocation_span) allocation_space_.give(at, span.size);
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
  for (Bytes covered = 0; size != 0; at += covered, size -= covered) {
    const Handle handle = handle_at(at);
    const Bytes offset = offset_at(at);
    if (handle == 0 || mappings_[granules(at - offset)].granted == 0) return false;
    covered = std::min(size, handles_[handle].size - offset);
  }
  return true;
}

Handle SimulatedMemory::handle_at(Address at) const {
  return mappings_[granules(at)].handle;
}

Bytes SimulatedMemory::offset_at(Address at) const {
  return handle_at(at) == 0 ? 0 : at - mappings_.begin(granules(at)) * granularity_;
}

std::vector<Piece> SimulatedMemory::pieces(Address at, Bytes size) const {
  std::vector<Piece> found;
  auto add = [&](Bytes place, Bytes length) {
    if (!found.empty() && found.back().place + found.back().size == place)
      found.back().size += length;
    else
      found.push_back({place, length});
  };
  if (!places_) return found;
  if (const auto whole = at_or_before(allocations_, at); whole != allocations_.end()) {
    const auto& [begin, span] = *whole;
    if (at - begin < span.size) {
      add(span.place + (at - begin), std::min(size, begin + span.size - at));
      return found;
    }
  }
  for (Bytes covered = 0; size != 0; at += covered, size -= covered) {
    const Handle handle = handle_at(at);
    if (handle == 0) break;
    const Bytes offset = offset_at(at);
    covered = std::min(size, handles_[handle].size - offset);
    add(handles_[handle].place + offset, covered);
  }
  return found;
}

bool SimulatedMemory::aligned(Address at, Bytes size) const {
  return size != 0 && granules(size) * granularity_ == size && granules(at) * granularity_ == at;
}

SimulatedMemory::Span* SimulatedMemory::range_of(Address at, Bytes size) {
  auto covers = [&](Spans::iterator range) {
    return range != ranges_.end() && at - range->first < range->second.size &&
           size <= range->second.size - (at - range->first);
  };
  // Chunks are mapped run by run: mostly it is the range of the last.
  if (!covers(last_range_)) last_range_ = at_or_before(ranges_, at);
  return covers(last_range_) ? &last_range_->second : nullptr;
}

bool SimulatedMemory::filled(Address at, Bytes size, Touched& touched) const {
  Mappings::Number number = granules(at);
  for (const Mappings::Number end = number + granules(size); number != end;) {
    const Mappings::Granule granule = mappings_[number];
    const Memory& memory = handles_[granule.handle];
    if (granule.first == 0 || memory.granules > end - number) return false;
    ++touched.handles;
    touched.bytes += memory.size;
    number += memory.granules;
  }
  return true;
}

template <typename Visit>
void SimulatedMemory::each_mapping(Address at, Bytes size, Visit visit) {
  Mappings::Number number = granules(at);
  for (const Mappings::Number end = number + granules(size); number != end;) {
    Memory& memory = handles_[mappings_[number].handle];
    visit(number, memory);
    number += memory.granules;
  }
}

bool SimulatedMemory::can_hand_out(Address at, Bytes size, const Spans& taken) {
  if (at == 0 || (at < first_allocation + allocation_span && first_allocation < at + size)) return false;
  if (at + size > first_range) return false;
  const auto next = taken.lower_bound(at);
  if (next != taken.end() && next->first - at < size) return false;
  if (next == taken.begin()) return true;
  const auto& [begin, span] = *std::prev(next);
  return at - begin >= span.size;
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
