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
  ranges_.emplace(begin, Range{.size = size, .mappings = {}});
  range = begin;
  return Status::success;
}

Status SimulatedMemory::free_range(Address range, Bytes size) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || found->second.size != size || found->second.mappings.count() != 0)
    return Status::invalid_value;
  if (last_range_ == found) last_range_ = ranges_.end();
  ranges_.erase(found);
  if (range >= first_range) range_space_.give(range, size);
  return Status::success;
}

Status SimulatedMemory::create(Bytes size, std::span<Handle> handles, std::size_t& done) {
  if (!aligned(0, size)) return Status::invalid_value;
  done = std::min(handles.size(), (capacity_ - used_) / size);
  for (Handle& handle : handles.first(done)) {
    handle = handles_.size();
    handles_.push_back({.size = size, .place = places_ ? places_->take(size) : 0});
  }
  used_ += done * size;
  handle_count_ += done;
  return done == handles.size() ? Status::success : Status::out_of_memory;
}

Status SimulatedMemory::release(Handle handle) {
  if (size_of(handle) == 0) return Status::invalid_value;
  handles_[handle].released = true;
  drop_if_dead(handles_[handle]);
  return Status::success;
}

Status SimulatedMemory::map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) {
  const Place place = aligned(at, size) ? place_of(at, size) : Place{};
  if (place.range == nullptr) return Status::invalid_value;
  const std::uint64_t room = (granules(place.range->size) - place.first) / (place.end - place.first);
  std::size_t known = 0;
  while (known < std::min(handles.size(), room) && size_of(handles[known]) == size) ++known;
  done = place.range->mappings.add(place.first, place.end - place.first, handles.first(known));
  for (const Handle handle : handles.first(done)) ++handles_[handle].mappings;
  return done == handles.size() ? Status::success : Status::invalid_value;
}

Status SimulatedMemory::unmap(Address at, Bytes size, std::uint64_t& handles) {
  const Place place = aligned(at, size) ? place_of(at, size) : Place{};
  handles = filled(place);
  if (handles == 0) return Status::invalid_value;
  place.range->mappings.erase(place.first, place.end, [this](Handle handle) {
    Memory& memory = handles_[handle];
    --memory.mappings;
    drop_if_dead(memory);
  });
  return Status::success;
}

Status SimulatedMemory::set_access(Address at, Bytes size, std::uint64_t& handles) {
  const Place place = aligned(at, size) ? place_of(at, size) : Place{};
  handles = filled(place);
  if (handles == 0) return Status::invalid_value;
  place.range->mappings.grant(place.first, place.end);
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
  allocations_.emplace(begin, Allocation{.size = rounded, .place = places_ ? places_->take(rounded) : 0});
  at = begin;
  return Status::success;
}

Status SimulatedMemory::free(Address at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return Status::invalid_value;
  const auto [size, place] = found->second;
  used_ -= size;
  if (places_) places_->give(place, size);
  if (at >= first_allocation && at - first_allocation < allocation_span) allocation_space_.give(at, size);
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
    const Mapped mapped = mapped_at(at);
    if (!mapped.granted) return false;
    covered = std::min(size, handles_[mapped.handle].size - mapped.offset);
  }
  return true;
}

SimulatedMemory::Mapped SimulatedMemory::mapped_at(Address at) const {
  const auto range = at_or_before(ranges_, at);
  if (!covers(range, at, 1)) return {};
  const Mappings& mappings = range->second.mappings;
  const Mappings::Number number = granules(at - range->first);
  const Handle handle = mappings[number].handle();
  if (handle == 0) return {};
  const Mappings::Number begin = mappings.begin(number);
  return {handle, at - range->first - begin * granularity_, mappings[begin].granted()};
}

std::size_t SimulatedMemory::mappings() const {
  std::size_t count = 0;
  for (const auto& [at, range] : ranges_) count += range.mappings.count();
  return count;
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
    const auto& [begin, allocation] = *whole;
    if (at - begin < allocation.size) {
      add(allocation.place + (at - begin), std::min(size, begin + allocation.size - at));
      return found;
    }
  }
  for (Bytes covered = 0; size != 0; at += covered, size -= covered) {
    const Mapped mapped = mapped_at(at);
    if (mapped.handle == 0) break;
    covered = std::min(size, handles_[mapped.handle].size - mapped.offset);
    add(handles_[mapped.handle].place + mapped.offset, covered);
  }
  return found;
}

bool SimulatedMemory::aligned(Address at, Bytes size) const {
  return size != 0 && granules(size) * granularity_ == size && granules(at) * granularity_ == at;
}

SimulatedMemory::Ranges::iterator SimulatedMemory::range_of(Address at) {
  return at_or_before(ranges_, at);
}

bool SimulatedMemory::can_hand_out(Address at, Bytes size, const auto& taken) {
  if (at == 0 || (at < first_allocation + allocation_span && first_allocation < at + size)) return false;
  if (at + size > first_range) return false;
  const auto next = taken.lower_bound(at);
  if (next != taken.end() && next->first - at < size) return false;
  if (next == taken.begin()) return true;
  const auto& [begin, last] = *std::prev(next);
  return at - begin >= last.size;
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

void SimulatedMemory::drop_if_dead(Memory& memory) {
  if (!memory.released || memory.mappings != 0) return;
  used_ -= memory.size;
  if (places_) places_->give(memory.place, memory.size);
  memory.size = 0;
  --handle_count_;
}

}  // namespace gmlake
