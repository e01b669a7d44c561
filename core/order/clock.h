// When may memory be used again, and by whom? Whoever uses a block on several streams may order them as late as just
// before the memory is used again *on the stream it was allocated for*: that is what PyTorch's allocator lets programs
// rely on, because it never gives memory to another stream. So released memory is free at once for the lane that had
// it. To any other it is free only once everything has passed that any stream was told to do before the release.
//
// A *lane* is a stream by a small number; all streams beyond the first 31 share the last lane. A *moment* is a count of
// the events that were recorded so far, on whatever stream: what was issued before a release is covered by every event
// of that moment or a later one. No driver is called here.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gmlake {

using Lane = std::uint8_t;
inline constexpr Lane lane_count = 32;
inline constexpr Lane crowd = lane_count - 1;  // the lane that several streams may share

using LaneSet = std::uint32_t;  // a bit per lane
constexpr LaneSet only(Lane lane) {
  return LaneSet{1} << lane;
}

template <typename Visit>
void each_lane(LaneSet lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<Lane>(std::countr_zero(lanes)));
}

using Moment = std::uint32_t;  // 0: before everything

// Of memory that was released, perhaps in parts: the last release by each lane. It is enough to know the latest of all
// and the latest by any other lane: whoever asks, what counts is the latest by somebody else.
class Clock {
 public:
  Clock() = default;
  Clock(Lane lane, Moment moment) : last_(moment), lane_(lane) {}

  Moment last() const { return last_; }
  // The last release that concerns this lane. Streams of the crowd know nothing of each other.
  Moment concerning(Lane lane) const { return lane == lane_ && lane != crowd ? before_ : last_; }

  void release(Lane lane, Moment moment) {  // not before any other
    if (lane != lane_) {
      before_ = last_;
      lane_ = lane;
    }
    last_ = moment;
  }
  void merge(const Clock& other) {
    const bool later = other.last_ > last_;
    const Clock& early = later ? *this : other;
    const Moment by_others = early.lane_ == (later ? other : *this).lane_ ? early.before_ : early.last_;
    if (later) {
      last_ = other.last_;
      before_ = other.before_;
      lane_ = other.lane_;
    }
    before_ = std::max(before_, by_others);
  }

 private:
  Moment last_ = 0;
  Moment before_ = 0;  // the latest release by another lane than that of the last
  Lane lane_ = 0;      // of the last release
};

}  // namespace gmlake
