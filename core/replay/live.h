// What a trace itself holds at a moment: which ids are live, how large they are and where the allocator put them. The
// peaks counted here depend on the trace alone and are therefore the same for every allocator. Memory that another
// stream still uses (record_stream) counts until the free, not longer: a trace does not say when the other stream ends.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/vocabulary.h"

namespace gmlake {

struct TracePeaks {
  Bytes requested = 0;  // as asked
  Bytes active = 0;     // every size rounded up to active_rounding
};

class LiveTable {
 public:
  static constexpr Bytes active_rounding = 512;  // PyTorch's smallest block

  explicit LiveTable(std::size_t ids) : slots_(ids) {}

  // Throws before the allocator is asked, so that a bad trace changes nothing.
  Bytes admit(std::uint32_t id, std::int64_t size) const {
    if (size < 0) [[unlikely]]
      refuse(id, "has size " + std::to_string(size) + "; a size is 0 or more");
    if (slots_[id].size != not_live) [[unlikely]]
      refuse(id, "is allocated again before it is freed");
    return static_cast<Bytes>(size);
  }

  void insert(std::uint32_t id, Bytes size, Address address) {
    slots_[id] = {address, static_cast<std::int64_t>(size)};
    requested_ += size;
    active_ += round_up(size, active_rounding);
    peaks_.requested = std::max(peaks_.requested, requested_);
    peaks_.active = std::max(peaks_.active, active_);
  }

  [[gnu::always_inline]] Address find(std::uint32_t id, const char* verb) const {
    if (id >= slots_.size() || slots_[id].size == not_live) [[unlikely]]
      refuse(id, std::string("is ") + verb + " but not live");
    return slots_[id].address;
  }

  Address remove(std::uint32_t id) {
    const Address address = find(id, "freed");
    const auto size = static_cast<Bytes>(slots_[id].size);
    requested_ -= size;
    active_ -= round_up(size, active_rounding);
    slots_[id].size = not_live;
    return address;
  }

  const TracePeaks& peaks() const { return peaks_; }

 private:
  static constexpr std::int64_t not_live = -1;
  [[noreturn, gnu::cold, gnu::noinline]] static void refuse(std::uint32_t id, const std::string& why) {
    throw InvalidArgument("allocation " + std::to_string(id) + " " + why);
  }
  struct Slot {
    Address address = 0;
    std::int64_t size = not_live;
  };

  std::vector<Slot> slots_;
  Bytes requested_ = 0;
  Bytes active_ = 0;
  TracePeaks peaks_;
};

}  // namespace gmlake
