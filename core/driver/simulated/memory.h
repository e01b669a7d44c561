// What exists on the simulated device and what is mapped where, with the real driver's refusals. Every method either
// does all of it or returns a status and changes nothing. No time, no faults and no locks: the driver adds those.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "driver/driver.h"
#include "driver/simulated/address_space.h"
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
  std::size_t mappings() const { return mappings_.size(); }
  std::size_t ranges() const { return ranges_.size(); }
  bool accessible(Address at, Bytes size) const;
  Handle handle_at(Address at) const;
  Bytes offset_at(Address at) const;

 private:
  struct Memory {
    Bytes size = 0;  // 0: gone
    std::uint64_t mappings = 0;
    bool released = false;
    Bytes place = 0;
  };
  struct Mapping {
    Bytes size = 0;
    Handle handle = 0;
    bool granted = false;
  };
  using Mappings = std::map<Address, Mapping>;

  bool aligned(Address at, Bytes size) const;
  bool within_range(Address at, Bytes size) const;
  // The first of the mappings that fill the span one after the other, without a gap; end if they do not.
  Mappings::iterator whole_mappings(Address at, Bytes size, Touched& touched);
  // Not ours to choose, and nothing there.
  bool can_hand_out(Address at, Bytes size, const std::map<Address, Bytes>& taken) const;
  Address next_address(Bytes size);
  Address next_range(Bytes size);
  Memory* memory_of(Handle handle);  // nullptr: there is none, or the client has released it
  void drop_if_dead(Memory& memory);

  Bytes capacity_;
  Bytes granularity_;
  Bytes used_ = 0;
  AddressSpace range_space_;
  AddressSpace allocation_space_;
  std::map<Address, Bytes> ranges_;
  std::vector<Memory> handles_ = std::vector<Memory>(1);  // by handle, and no handle is ever given out again
  std::size_t handle_count_ = 0;
  Mappings mappings_;
  Mappings::iterator last_ = mappings_.end();  // the mapping that was made last, while it is there
  std::map<Address, Bytes> allocations_;
  std::optional<Places> places_;
  std::map<Address, Bytes> allocation_places_;  // of allocations, while places are kept
  std::deque<Address> handed_out_;
  std::deque<Address> handed_out_ranges_;
};

}  // namespace gmlake
