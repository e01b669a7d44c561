// Does the program repeat itself? A request is known when the same size was asked for before while the same number of
// bytes was active. Layers of one step ask for equal sizes at different levels of memory, so only the same point of an
// earlier step matches; a step with other shapes matches nothing. Fixed size, forgets the oldest by overwriting.
#pragma once

#include <cstdint>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class Recurrence {
 public:
  // Notes the request and tells whether it was known.
  bool note(Bytes size, Bytes active) {
    const std::uint64_t mixed = (size * 0x9E3779B97F4A7C15u ^ active) * 0xC2B2AE3D27D4EB4Fu;
    std::uint32_t& slot = marks_[mixed >> (64 - bits)];
    const auto mark = static_cast<std::uint32_t>(mixed) | 1;  // 0 is an empty slot
    const bool known = slot == mark;
    slot = mark;
    return known;
  }

 private:
  static constexpr int bits = 16;
  std::vector<std::uint32_t> marks_ = std::vector<std::uint32_t>(std::size_t{1} << bits);
};

}  // namespace gmlake
