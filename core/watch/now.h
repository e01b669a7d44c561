// The time of day, as statistics, journals and boards note it.
#pragma once

#include <chrono>
#include <cstdint>

namespace gmlake {

inline std::int64_t now_us() {  // microseconds since the epoch
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace gmlake
