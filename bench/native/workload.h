// What the contenders are asked to do, fixed in advance so that all are asked the same and nothing but the calls is
// timed.
//
// Memory is laid out as slot, wall, slot, wall ...: walls stay for ever and keep free slots from being joined. A step
// releases a random live block and asks for a size that some free slot has exactly; which one is as random as the rest,
// so that neither caches nor branch predictors see a pattern. A step leaves as many blocks live and free as there were.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/vocabulary.h"

namespace gmlake::bench {

struct SizeRange {
  Bytes smallest, largest, wall;
};

inline SizeRange size_range(const std::string& kind) {
  if (kind == "small") return {512, 64 * KiB, 512};  // at most half of what makes glibc ask the system for a mapping
  if (kind == "large") return {1 * MiB + 512, 16 * MiB, 1 * MiB + 512};
  if (kind == "huge") return {64 * MiB, 64 * MiB, 1 * MiB + 512};  // of one size: they go to the lowest place that fits
  throw InvalidArgument("kind '" + kind + "' is unknown; kinds are small, large and huge");
}

struct Step {
  std::uint32_t index;  // of the live block to release, and where the new one goes
  std::uint32_t units;  // of 512 bytes, to ask for
};

// The share of one thread: its slots and its steps.
struct Share {
  std::vector<Bytes> slots;
  std::vector<bool> live;  // per slot, at the beginning
  std::vector<Step> steps;
};

class Workload {
 public:
  static constexpr Bytes unit = 512;

  Workload(const std::string& kind, std::size_t free, std::size_t moving, std::size_t threads, std::size_t steps)
      : wall(size_range(kind).wall) {
    const SizeRange sizes = size_range(kind);
    std::mt19937_64 random(20250101);
    // Sizes are drawn from a palette, evenly by magnitude: programs use some dozens of sizes, small ones more often.
    std::uniform_real_distribution<double> magnitude(std::log2(sizes.smallest), std::log2(sizes.largest));
    std::vector<Bytes> palette(64);
    for (Bytes& size : palette)
      size =
          std::clamp(round_up(static_cast<Bytes>(std::exp2(magnitude(random))), unit), sizes.smallest, sizes.largest);
    for (std::size_t thread = 0; thread < threads; ++thread)
      shares.push_back(share(palette, free / threads, moving / threads, steps / threads, random));
  }

  Bytes bytes() const {
    Bytes sum = 0;
    for (const Share& share : shares)
      for (Bytes slot : share.slots) sum += slot + wall;
    return sum;
  }

  Bytes wall;
  std::vector<Share> shares;  // by thread

 private:
  static Share share(const std::vector<Bytes>& palette, std::size_t free_slots, std::size_t live_slots,
                     std::size_t steps, std::mt19937_64& random) {
    Share result;
    std::vector<Bytes> live;
    std::vector<Bytes> free;
    for (std::size_t slot = 0; slot < free_slots + live_slots; ++slot) {
      result.slots.push_back(palette[random() % palette.size()]);
      result.live.push_back(slot < live_slots);
    }
    std::shuffle(result.live.begin(), result.live.end(), random);
    for (std::size_t slot = 0; slot < result.slots.size(); ++slot)
      (result.live[slot] ? live : free).push_back(result.slots[slot]);
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t index = random() % live.size();
      std::swap(live[index], free[random() % free.size()]);
      result.steps.push_back({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(live[index] / unit)});
    }
    return result;
  }
};

}  // namespace gmlake::bench
