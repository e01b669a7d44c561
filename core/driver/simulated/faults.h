// Injected failures: which future calls of a kind fail, and how. Counts calls from the moment a fault is set.
#pragma once

#include <array>
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

  // To be asked once for every call; the status it must fail with, or success.
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
