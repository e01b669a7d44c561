// What exists on the simulated device and what is mapped where, with the real driver's refusals. Every method either
// does all of it or returns a status and changes nothing. No time, no faults and no locks: the driver adds those.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "driver/driver.h"
#include "driver/simulated/address_space.h"
#include "driver/simulated/mappings.h"
#include "driver/simulated/places.h"

namespace gmlake {

class SimulatedMemory {
 public:
  // Sizes of the handles that a call touched, for the cost model.
  struct Touched {
    std::uint64_t handles = 0;
    Bytes bytes = 0;
  };

  SimulatedMemory(Bytes capacity, Bytes granularity, Bytes address_space);

  Status reserve(Bytes size, Address& range);
  Status free_range(Address range, Bytes size);
  Status create(Bytes size, Handle& handle);
  Status release(Handle handle);
  Status map(Address at, Bytes size, Handle handle);
  Status unmap(Address at, Bytes size, Touched& touched);
  Status set_access(Address at, Bytes size, Touched& touched);
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
  std::size_t mappings() const { return mappings_.count(); }
  std::size_t ranges() const { return ranges_.size(); }
  bool accessible(Address at, Bytes size) const;
  Handle handle_at(Address at) const;
  Bytes offset_at(Address at) const;

 private:
  struct Memory {
    Bytes size = 0;  // 0: gone
    std::uint64_t granules = 0;
    std::uint64_t mappings = 0;
    bool released = false;
    Bytes place = 0;
  };
  struct Span {  // of addresses that are taken
    Bytes size = 0;
    std::uint64_t mappings = 0;  // of a range
    Bytes place = 0;             // of an allocation, while places are kept
  };
  using Spans = std::map<Address, Span>;

  std::uint64_t granules(Bytes bytes) const {  // or the number of the granule at an address
    return shift_ != 0 ? bytes >> shift_ : bytes / granularity_;
  }
  bool aligned(Address at, Bytes size) const;
  Span* range_of(Address at, Bytes size);  // nullptr: no range covers all of it
  // Do mappings fill the span one after the other, without a gap?
  bool filled(Address at, Bytes size, Touched& touched) const;
  // Calls visit(granule, memory) for each of the mappings that do.
  template <typename Visit>
  void each_mapping(Address at, Bytes size, Visit visit);
  // Not ours to choose, and nothing there.
  static bool can_hand_out(Address at, Bytes size, const Spans& taken);
  Address next_address(Bytes size);
  Address next_range(Bytes size);
  Memory* memory_of(Handle handle);  // nullptr: there is none, or the client has released it
  void drop_if_dead(Memory& memory);

  Bytes capacity_;
  Bytes granularity_;
  int shift_;  // nearly every granularity is a power of two, and nothing else in a call takes as long as to divide
  Bytes used_ = 0;
  AddressSpace range_space_;
  AddressSpace allocation_space_;
  Spans ranges_;
  Spans::iterator last_range_ = ranges_.end();            // where something was mapped last, while it is there
  std::vector<Memory> handles_ = std::vector<Memory>(1);  // by handle, and no handle is ever given out again
  std::size_t handle_count_ = 0;
  Mappings mappings_;
  Spans allocations_;
  std::optional<Places> places_;
  std::deque<Address> handed_out_;
  std::deque<Address> handed_out_ranges_;
};

}  // namespace gmlake
