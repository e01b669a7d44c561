// Where on the simulated device physical memory lies: every handle and allocation takes the lowest free place that is
// long enough, and what came and went is noted. No driver tells its client this; it is kept for memory maps alone, and
// only if somebody asks.
#pragma once

#include <utility>
#include <vector>

#include "base/vocabulary.h"
#include "driver/simulated/address_space.h"

namespace gmlake {

struct Piece {  // of physical memory
  Bytes place = 0;
  Bytes size = 0;
};

struct PlaceChange {
  Piece piece;
  bool taken = false;  // or else given back
};

class Places {
 public:
  Bytes take(Bytes size) {
    const Bytes place = space_.take(size) - origin;
    changes_.push_back({{place, size}, true});
    return place;
  }
  void give(Bytes place, Bytes size) {
    space_.give(place + origin, size);
    changes_.push_back({{place, size}, false});
  }
  std::vector<PlaceChange> changes() { return std::exchange(changes_, {}); }  // since they were last asked for

 private:
  static constexpr Address origin = Address{1} << 40;  // because address 0 means none
  AddressSpace space_{origin, Bytes{1} << 62};
  std::vector<PlaceChange> changes_;
};

}  // namespace gmlake
