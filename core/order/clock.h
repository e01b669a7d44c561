// When was memory last used, and by whom? A clock holds, per lane, the epoch in which a stream of that lane used the
// memory last. A *lane* is a stream by a small number; all streams beyond the first seven share the last lane. An epoch
// ends whenever an event is recorded on the lane, so "everything up to epoch n" is exactly what that event covers.
// Clocks of neighbours are merged when their memory is: the later epoch wins. No driver is called here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gmlake {

using Lane = std::uint8_t;
inline constexpr Lane lane_count = 8;
inline constexpr Lane crowd = lane_count - 1;  // the lane that several streams may share

using LaneSet = std::uint8_t;  // a bit per lane
constexpr LaneSet only(Lane lane) {
  return static_cast<LaneSet>(1u << lane);
}
// The lanes whose work is not in order with this one's. The crowd is not even in order with itself.
constexpr unsigned others(Lane lane) {
  return lane == crowd ? ~0u : ~(1u << lane);
}

template <typename Visit>
void each_lane(unsigned lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<Lane>(std::countr_zero(lanes)));
}

// Nearly all memory is used by a single lane for ever. Its epoch is kept in front of the others, so that only memory
// that was shared needs the rest of the clock, which is large.
class Clock {
 public:
  Clock() = default;
  Clock(Lane lane, std::uint32_t epoch) : lanes_(only(lane)), recent_(lane), recent_epoch_(epoch) {}
  Clock(const Clock& other) { *this = other; }
  Clock& operator=(const Clock& other) {
    lanes_ = other.lanes_;
    recent_ = other.recent_;
    recent_epoch_ = other.recent_epoch_;
    if (several(lanes_)) epochs_ = other.epochs_;
    return *this;
  }

  LaneSet lanes() const { return lanes_; }  // those that have used the memory
  std::uint32_t epoch(Lane lane) const {    // 0: never used by this lane
    return lane == recent_ ? recent_epoch_ : (lanes_ & only(lane)) != 0 ? epochs_[lane] : 0;
  }

  void set(Lane lane, std::uint32_t epoch) {  // not before what is known of the lane
    if (lane != recent_) {
      if (!several(lanes_)) epochs_ = {};
      if (lanes_ != 0) epochs_[recent_] = recent_epoch_;
      recent_ = lane;
      lanes_ |= only(lane);
    }
    recent_epoch_ = epoch;
  }
  void merge(const Clock& other) {
    if (!several(other.lanes_)) {
      if (other.lanes_ != 0) set(other.recent_, std::max(epoch(other.recent_), other.recent_epoch_));
    } else if (!several(lanes_)) {
      const Clock single = *this;
      *this = other;
      merge(single);
    } else {
      for (Lane lane = 0; lane < lane_count; ++lane) epochs_[lane] = std::max(epochs_[lane], other.epochs_[lane]);
      epochs_[other.recent_] = std::max(epochs_[other.recent_], other.recent_epoch_);
      recent_epoch_ = std::max(recent_epoch_, epochs_[recent_]);
      lanes_ |= other.lanes_;
    }
  }

 private:
  static bool several(LaneSet lanes) { return (lanes & (lanes - 1)) != 0; }

  LaneSet lanes_ = 0;
  Lane recent_ = lane_count;        // the lane that was set last; none of them at first
  std::uint32_t recent_epoch_ = 0;  // its epoch, instead of the one below
  // With several lanes: the epochs of the others, 0 for lanes that have not used the memory. Otherwise anything.
  std::array<std::uint32_t, lane_count> epochs_{};
};

}  // namespace gmlake
