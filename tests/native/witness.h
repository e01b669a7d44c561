// Who has which memory, by the client's word and the driver's: no two blocks that are out share an address, and none
// share a byte of physical memory, under whatever addresses. Knows nothing of how an allocator works. May be used from
// any thread.
#pragma once

#include <map>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/simulated.h"

namespace gmlake::testing {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Witness {
 public:
  explicit Witness(const SimulatedDriver& driver) : driver_(driver) {}

  // To be told after the block was handed out, and before it is given back. Both throw Failure.
  void received(Address address, Bytes size);
  void returning(Address address);

  // Every block that is out is still where it was, and may be touched.
  void verify() const;

 private:
  using Spot = std::pair<Handle, Bytes>;  // handle 0: memory that the driver's own allocation made, by its address
  struct Piece {
    Spot from;
    Bytes size;
  };
  struct Block {
    Bytes size;
    std::vector<Piece> pieces;
  };
  std::vector<Piece> pieces_of(Address address, Bytes size) const;

  const SimulatedDriver& driver_;
  mutable std::mutex mutex_;
  std::unordered_map<Address, Block> blocks_;
  std::map<Spot, Bytes> taken_;
};

}  // namespace gmlake::testing
