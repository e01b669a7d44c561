// When was memory last used, and by whom? A clock holds, per lane, the epoch in which a stream of that lane used the
// memory last. A *lane* is a stream by a small number; all streams beyond the first seven share the last lane. An epoch
// ends whenever an event is recorded on the lane, so "everything up to epoch n" is exactly what that event covers.
// Clocks of neighbours are merged when their memory is: the later epoch wins. No driver is called here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gmlake {

using Lane = std::uint8_t;
inline constexpr Lane lane_count = 8;
inline constexpr Lane crowd = lane_count - 1;  // the lane that several streams may share

struct Clock {
  std::array<std::uint32_t, lane_count> epochs{};  // 0: never used by this lane

  void merge(const Clock& other) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) epochs[lane] = std::max(epochs[lane], other.epochs[lane]);
  }
};

}  // namespace gmlake
