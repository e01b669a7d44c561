// The memory map of a replay: which physical memory the allocator held when, and of which pieces of it every block was
// made. Places are the simulated device's (driver/simulated/places.h), so that a stitched block is several pieces.
#pragma once

#include <vector>

#include "driver/simulated.h"

namespace gmlake {

struct MemoryMap {
  struct Held {
    std::uint64_t event = 0;  // during which it was taken or given back
    PlaceChange change;
  };
  struct Part {
    std::uint32_t id = 0;  // of the allocation
    Piece piece;
  };
  static constexpr Bytes rounding = 256;  // of blocks: the finest step of any allocator

  std::vector<Held> held;    // in the order in which it happened
  std::vector<Part> pieces;  // by allocation, in the order of its addresses

  void add_block(std::uint32_t id, const SimulatedDriver& driver, Address at, Bytes size) {
    for (const Piece& piece : driver.pieces(at, size)) pieces.push_back({id, piece});
  }
  void add_changes(std::uint64_t event, SimulatedDriver& driver) {
    for (const PlaceChange& change : driver.place_changes()) held.push_back({event, change});
  }
};

}  // namespace gmlake
