#include "watch/tally.h"

#include <algorithm>

namespace gmlake {

Tally::Side Tally::both() const {
  Side sum;
  static_cast<Peaks&>(sum) = all_;
  for (const Side& side : sides_)
    for (std::size_t i = 0; i < measures; ++i) {
      sum.active[i] += side.active[i];
      sum.ever[i] += side.ever[i];
      sum.lingering[i] += side.lingering[i];
      sum.before[i] += side.before[i];
      sum.lingering_before[i] += side.lingering_before[i];
    }
  return sum;
}

void Tally::linger(PoolKind kind, std::int64_t count, Bytes bytes, Bytes requested) {
  for (Amounts* amounts : {&side(kind).active, &side(kind).lingering}) {
    (*amounts)[blocks] += count;
    (*amounts)[all_bytes] += count * signed_bytes(bytes);
    (*amounts)[asked_bytes] += count * signed_bytes(requested);
  }
}

void Tally::raise_peaks() {
  for (std::size_t i = 0; i < measures; ++i) {
    auto raise = [i](Peaks& peaks, std::int64_t active, std::int64_t lingering) {
      peaks.peak[i] = std::max(peaks.peak[i], active - lingering);
      peaks.active_peak[i] = std::max(peaks.active_peak[i], active);
    };
    std::int64_t active = 0;
    std::int64_t lingering = 0;
    for (Side& side : sides_) {
      raise(side, side.active[i], side.lingering[i]);
      active += side.active[i];
      lingering += side.lingering[i];
    }
    raise(all_, active, lingering);
  }
}

Bytes Tally::active() const {
  return static_cast<Bytes>(sides_[0].active[all_bytes] + sides_[1].active[all_bytes]);
}

Bytes Tally::high_water() const {
  return std::max(high_water_, static_cast<Bytes>(all_.active_peak[all_bytes]));
}

void Tally::show(Statistics& statistics) const {
  auto show = [&](std::size_t place, const Side& side) {
    auto active = [&](Measure i) { return Stat{side.active[i], side.active_peak[i], side.ever[i], side.before[i]}; };
    auto held = [&](Measure i) {
      return Stat{side.active[i] - side.lingering[i], side.peak[i], side.ever[i],
                  side.before[i] - side.lingering_before[i]};
    };
    statistics.allocation.by[place] = held(blocks);
    statistics.allocated_bytes.by[place] = held(all_bytes);
    statistics.active.by[place] = active(blocks);
    statistics.active_bytes.by[place] = active(all_bytes);
    statistics.requested_bytes.by[place] = active(asked_bytes);
  };
  show(0, both());
  show(static_cast<std::size_t>(PoolKind::small), sides_[0]);
  show(static_cast<std::size_t>(PoolKind::large), sides_[1]);
}

void Tally::reset_peaks() {
  high_water_ = high_water();
  all_ = {};
  for (Side& side : sides_) static_cast<Peaks&>(side) = {};
  raise_peaks();
}

void Tally::reset_accumulated() {
  for (Side& side : sides_) {
    side.ever = {};
    side.before = side.active;
    side.lingering_before = side.lingering;
  }
}

}  // namespace gmlake
