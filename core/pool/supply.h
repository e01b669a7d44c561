// What all pools of a device share: the driver, the chunks, the order of streams, the budget and the counters.
#pragma once

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "driver/driver.h"
#include "memory/chunks.h"
#include "memory/ranges.h"
#include "order/fences.h"
#include "watch/journal.h"
#include "watch/statistics.h"
#include "watch/tally.h"

namespace gmlake {

struct Policy {
  double target = 0;          // grow freely while reserved <= peak active / target; beyond, stitch
  Bytes chunk_limit = 0;      // no chunk is larger
  Bytes small_limit = 0;      // requests up to this size come from slabs
  double address_budget = 0;  // sBlocks may map this many times the reserved bytes
};

struct Supply {
  Supply(Driver& the_driver, const Policy& the_policy)
      : driver(the_driver),
        policy(the_policy),
        chunk_limit(
            std::clamp(round_down(device_bytes(the_driver) / 2500, page_size), page_size, the_policy.chunk_limit)) {}

  Driver& driver;
  const Policy policy;
  // When memory is short, what is lost lies in chunks that are partly in use, a few dozen of them: together they must
  // stay below a percent of the device.
  const Bytes chunk_limit;
  Tally tally;            // what clients have
  Statistics statistics;  // everything else
  Journal journal;
  Ranges ranges{driver, statistics};
  Chunks chunks{driver, statistics};
  Fences fences{driver};
  Bytes limit = std::numeric_limits<Bytes>::max();  // of reserved bytes, by the user
  // When it was looked at for the last time:
  bool tight = false;          // less than a quarter of the memory was left
  bool scarce = false;         // less than a sixth
  bool beyond_target = false;  // more was reserved than the target allows

  static Bytes device_bytes(Driver& driver) {
    Bytes free = 0;
    Bytes total = 0;
    return driver.memory_info(free, total) == Status::success ? total : 0;
  }

  // Bytes that may still be created, by the user's limit and the device's free memory.
  Bytes room() {
    const Bytes reserved = chunks.reserved();
    const Bytes free = device_has_.free_beside(reserved, driver);
    const Bytes room = round_down(std::min(free, limit > reserved ? limit - reserved : 0), page_size);
    tight = room < reserved / 3;
    scarce = room < reserved / 5;
    const auto surely = static_cast<double>(reserved - reserved / 700);  // more than a chunk that was rounded up
    beyond_target = surely * policy.target > static_cast<double>(tally.high_water());
    return room;
  }
  void look_again() { device_has_ = {}; }  // at the device, the next time

  // Bytes that are reserved beyond the user's limit, which came later.
  Bytes excess() const { return chunks.reserved() - std::min(chunks.reserved(), limit); }

  // Bytes that are reserved and not active, wherever they are: more than this nobody finds free.
  Bytes inactive() const { return chunks.reserved() - std::min(chunks.reserved(), tally.active()); }

  // Bytes that may be created for a request of this size before stitching becomes the better choice.
  Bytes allowance(Bytes size) const {
    const Bytes peak = std::max(tally.high_water(), tally.active() + size);
    const auto allowed = bytes_of(static_cast<double>(peak) / policy.target);
    return allowed > chunks.reserved() ? allowed - chunks.reserved() : 0;
  }

  // Handles cost by the piece, but a chunk can only move as a whole, and what is free in one that is partly in use is
  // of little use to others: an eighth of the request is the compromise. Less while little is reserved, because then a
  // model is loaded: its weights stay, and what is free between them comes in small pieces. And no more than 16 MiB
  // but for the largest of requests.
  Bytes chunk_size(Bytes request) const {
    const Bytes most = std::max(request / 64, std::min(chunks.reserved() / 1100, 16 * MiB));
    return std::clamp(round_down(std::min(request / 8, most), page_size), page_size, chunk_limit);
  }

 private:
  // What the device has for us. To ask a real driver is a call into the kernel, and what we create and give back we
  // know: it is asked again when half is gone, and now and then, because others use the device, too. What they take
  // meanwhile it refuses to create, and the ladder looks again.
  class DeviceMemory {
   public:
    Bytes free_beside(Bytes reserved, Driver& driver) {
      if (++unasked_ >= patience || remains(reserved) < free_ / 2) ask(reserved, driver);
      return remains(reserved);
    }

   private:
    static constexpr int patience = 64;
    Bytes remains(Bytes reserved) const { return ours_ - std::min(ours_, reserved); }
    void ask(Bytes reserved, Driver& driver) {
      Bytes total = 0;
      if (driver.memory_info(free_, total) != Status::success) free_ = 0;
      ours_ = reserved + std::min(free_, std::numeric_limits<Bytes>::max() - reserved);
      unasked_ = 0;
    }

    Bytes free_ = 0;  // when it was asked
    Bytes ours_ = 0;  // that and what was reserved then
    int unasked_ = patience;
  };
  DeviceMemory device_has_;
};

}  // namespace gmlake
