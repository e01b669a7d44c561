// Injected failures: which future calls of a kind fail, and how. Counts calls from the moment a fault is set.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "driver/driver.h"

namespace gmlake {

class Faults {
 public:
  void add(Call call, std::uint64_t nth, Status status, std::uint64_t times) {
    Kind& kind = kinds_[static_cast<std::size_t>(call)];
    kind.faults.push_back({kind.calls + nth, kind.calls + nth + times - 1, status});
  }

  void clear() {
    for (Kind& kind : kinds_) kind.faults.clear();
  }

  // How many calls will succeed before the next that must fail.
  std::uint64_t until_next(Call call) const {
    const Kind& kind = kinds_[static_cast<std::size_t>(call)];
    std::uint64_t calls = std::numeric_limits<std::uint64_t>::max();
    for (const Fault& fault : kind.faults)
      if (fault.last > kind.calls) calls = std::min(calls, std::max(fault.first, kind.calls + 1) - kind.calls - 1);
    return calls;
  }
  void pass(Call call, std::uint64_t calls) { kinds_[static_cast<std::size_t>(call)].calls += calls; }

  // To be asked once for every other call; the status it must fail with, or success.
  Status next(Call call) {
    Kind& kind = kinds_[static_cast<std::size_t>(call)];
    ++kind.calls;
    for (const Fault& fault : kind.faults)
      if (fault.first <= kind.calls && kind.calls <= fault.last) {
        ++failures_;
        return fault.status;
      }
    return Status::success;
  }

  std::uint64_t failures() const { return failures_; }

 private:
  struct Fault {
    std::uint64_t first = 0, last = 0;  // numbers of the calls that fail
    Status status = Status::success;
  };
  struct Kind {
    std::uint64_t calls = 0;
    std::vector<Fault> faults;
  };
  std::array<Kind, call_kinds> kinds_{};
  std::uint64_t failures_ = 0;
};

}  // namespace gmlake
