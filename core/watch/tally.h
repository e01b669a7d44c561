// The counters that every allocation and every release changes. PyTorch shows fifteen: blocks and bytes in the client's
// hands, blocks and bytes that are active (in its hands, or still used by a stream), and requested bytes; each of
// small, large and all blocks, with a peak and a sum. Kept is only what does not follow from the rest. New peaks are
// rare once a program has warmed up: the hot path just asks whether there may be one.
#pragma once

#include <array>

#include "base/vocabulary.h"
#include "watch/statistics.h"

namespace gmlake {

class Tally {
 public:
  [[gnu::always_inline]] void allocate(PoolKind kind, Bytes bytes, Bytes requested) {
    Side& side = this->side(kind);
    const Side& other = sides_[&side == sides_.data()];
    std::int64_t room = 0;  // below the peaks; negative if anything is above its own
    auto add = [&](Measure measure, std::int64_t amount) {
      const std::int64_t active = side.active[measure] += amount;
      side.ever[measure] += amount;
      room |= side.peak[measure] - active;
      room |= all_.peak[measure] - active - other.active[measure];
    };
    add(blocks, 1);
    add(all_bytes, signed_bytes(bytes));
    add(asked_bytes, signed_bytes(requested));
    if (room < 0) [[unlikely]]
      raise_peaks();
  }

  [[gnu::always_inline]] void release(PoolKind kind, Bytes bytes, Bytes requested) {
    Side& side = this->side(kind);
    side.active[blocks] -= 1;
    side.active[all_bytes] -= signed_bytes(bytes);
    side.active[asked_bytes] -= signed_bytes(requested);
  }

  // A released block that a stream still uses stays active, and its request with it, until it is settled.
  void postpone(PoolKind kind, Bytes bytes, Bytes requested) { linger(kind, 1, bytes, requested); }
  void settle(PoolKind kind, Bytes bytes, Bytes requested) { linger(kind, -1, bytes, requested); }

  // Bytes that the client has: all, and in large blocks.
  Bytes allocated() const { return sides_[0].allocated() + sides_[1].allocated(); }
  Bytes allocated_large() const { return sides_[1].allocated(); }
  Bytes active() const;      // all the client has, and what lingers
  Bytes high_water() const;  // the most it ever was, whichever peaks were reset

  void show(Statistics& statistics) const;

  // The counters themselves, for a board.
  using Counters = std::array<const std::int64_t*, 2>;
  Counters active_counters() const { return {&sides_[0].active[all_bytes], &sides_[1].active[all_bytes]}; }
  Counters lingering_counters() const { return {&sides_[0].lingering[all_bytes], &sides_[1].lingering[all_bytes]}; }
  const std::int64_t* peak_counter() const { return &all_.active_peak[all_bytes]; }

  void reset_peaks();
  void reset_accumulated();

 private:
  enum Measure : std::uint8_t { blocks, all_bytes, asked_bytes, measures };
  using Amounts = std::array<std::int64_t, measures>;
  struct Peaks {
    Amounts peak{};         // of what the client has; active bytes above it need not be a new one
    Amounts active_peak{};  // of that and what lingers
  };
  struct Side : Peaks {
    Amounts active{};
    Amounts ever{};       // the sum of all that came
    Amounts lingering{};  // active, but no longer the client's
    Amounts before{};     // active and lingering when the sums began
    Amounts lingering_before{};
    Bytes allocated() const { return static_cast<Bytes>(active[all_bytes] - lingering[all_bytes]); }
  };

  Side& side(PoolKind kind) { return sides_[kind == PoolKind::large]; }
  Side both() const;  // all blocks
  void linger(PoolKind kind, std::int64_t count, Bytes bytes, Bytes requested);
  void raise_peaks();

  std::array<Side, 2> sides_;  // small, large
  Peaks all_;
  Bytes high_water_ = 0;  // before the last reset of the peaks
};

}  // namespace gmlake
