// What exists on the simulated device and what is mapped where, with the real driver's refusals. Every method either
// does all of it or returns a status and changes nothing; those for several handles do that handle by handle. No time,
// no faults and no locks: the driver adds those.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "driver/driver.h"
#include "driver/simulated/address_space.h"
#include "driver/simulated/mappings.h"
#include "driver/simulated/places.h"

namespace gmlake {

class SimulatedMemory {
 public:
  SimulatedMemory(Bytes capacity, Bytes granularity, Bytes address_space);

  Status reserve(Bytes size, Address& range);
  Status free_range(Address range, Bytes size);
  Status create(Bytes size, std::span<Handle> handles, std::size_t& done);
  Status release(Handle handle);
  Status map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done);
  Status unmap(Address at, Bytes size, std::uint64_t& handles);  // that were mapped there
  Status set_access(Address at, Bytes size, std::uint64_t& handles);
  Status allocate(Bytes size, Address& at);
  Status free(Address at);

  void hand_out(const std::vector<Address>& addresses);
  void hand_out_ranges(const std::vector<Address>& addresses);

  // Places are kept from now on; nothing may exist yet.
  void keep_places() { places_.emplace(); }
  std::vector<PlaceChange> place_changes() { return places_ ? places_->changes() : std::vector<PlaceChange>{}; }
  std::vector<Piece> pieces(Address at, Bytes size) const;

  Bytes used() const { return used_; }
  std::size_t handles() const { return handle_count_; }
  std::size_t mappings() const;
  std::size_t ranges() const { return ranges_.size(); }
  bool accessible(Address at, Bytes size) const;
  Handle handle_at(Address at) const { return mapped_at(at).handle; }
  Bytes offset_at(Address at) const { return mapped_at(at).offset; }

 private:
  struct Memory {
    Bytes size = 0;  // 0: gone
    std::uint32_t mappings = 0;
    bool released = false;
    Bytes place = 0;
  };
  struct Range {
    Bytes size = 0;
    Mappings mappings;
  };
  struct Allocation {
    Bytes size = 0;
    Bytes place = 0;
  };
  using Ranges = std::map<Address, Range>;

  std::uint64_t granules(Bytes bytes) const { return shift_ != 0 ? bytes >> shift_ : bytes / granularity_; }
  bool aligned(Address at, Bytes size) const;
  // Addresses of a range, as its page table counts them.
  struct Place {
    Range* range = nullptr;  // nullptr: no range covers all of them
    Mappings::Number first = 0;
    Mappings::Number end = 0;
  };
  [[gnu::always_inline]] Place place_of(Address at, Bytes size) {
    // Chunks are mapped run by run: mostly it is the range of the last.
    if (!covers(last_range_, at, size)) last_range_ = range_of(at);
    if (!covers(last_range_, at, size)) return {};
    const Mappings::Number first = granules(at - last_range_->first);
    return {&last_range_->second, first, first + granules(size)};
  }
  bool covers(Ranges::const_iterator range, Address at, Bytes size) const {
    return range != ranges_.end() && at - range->first < range->second.size &&
           size <= range->second.size - (at - range->first);
  }
  Ranges::iterator range_of(Address at);  // the last that begins at or before the address
  // The handle that is mapped at an address, and where in it the address is; 0: nothing is.
  struct Mapped {
    Handle handle = 0;
    Bytes offset = 0;
    bool granted = false;
  };
  Mapped mapped_at(Address at) const;
  // How many handles fill the place one after the other, without a gap; 0: they do not.
  static std::uint64_t filled(const Place& place) {
    return place.range == nullptr ? 0 : place.range->mappings.filled_by(place.first, place.end);
  }
  // Not ours to choose, and nothing there.
  static bool can_hand_out(Address at, Bytes size, const auto& taken);
  Address next_address(Bytes size);
  Address next_range(Bytes size);
  Bytes size_of(Handle handle) const {  // 0: there is none, or the client has released it
    return handle < handles_.size() && !handles_[handle].released ? handles_[handle].size : 0;
  }
  void drop_if_dead(Memory& memory);

  Bytes capacity_;
  Bytes granularity_;
  int shift_;  // nearly every granularity is a power of two, and nothing else in a call takes as long as to divide
  Bytes used_ = 0;
  AddressSpace range_space_;
  AddressSpace allocation_space_;
  Ranges ranges_;
  Ranges::iterator last_range_ = ranges_.end();           // where something was mapped last, while it is there
  std::vector<Memory> handles_ = std::vector<Memory>(1);  // by handle, and no handle is ever given out again
  std::size_t handle_count_ = 0;
  std::map<Address, Allocation> allocations_;
  std::optional<Places> places_;
  std::deque<Address> handed_out_;
  std::deque<Address> handed_out_ranges_;
};

}  // namespace gmlake
