// Reserved spans of addresses. A range that the driver refuses to take back is remembered and tried again: addresses
// are finite too.
#pragma once

#include <vector>

#include "driver/driver.h"
#include "watch/statistics.h"

namespace gmlake {

class Ranges {
 public:
  Ranges(Driver& driver, Statistics& statistics) : driver_(driver), statistics_(statistics) {}
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;
  ~Ranges() { retry(); }

  Address reserve(Bytes size) {  // 0: the driver refused
    Address range = 0;
    if (driver_.reserve(size, range) != Status::success) return 0;
    statistics_.address_bytes.increase(signed_bytes(size));
    return range;
  }

  void free(Address range, Bytes size) {  // must be empty
    if (!try_free({range, size})) stuck_.push_back({range, size});
  }

  void retry() {
    std::erase_if(stuck_, [this](const Span& span) { return try_free(span); });
  }

 private:
  bool try_free(const Span& span) {
    if (!succeeded(driver_.free_range(span.at, span.size))) return false;
    statistics_.address_bytes.decrease(signed_bytes(span.size));
    return true;
  }

  Driver& driver_;
  Statistics& statistics_;
  std::vector<Span> stuck_;
};

}  // namespace gmlake
