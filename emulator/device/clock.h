// Emulated time. The host's clock goes on by a fixed step with every call, and jumps forward when the host waits for
// the device: nothing sleeps, and a run is the same on every machine. It says nothing about how fast a GPU is.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/configuration.h"

namespace gmlake::device {

using Nanoseconds = std::uint64_t;

namespace clock_detail {
inline std::atomic<Nanoseconds> now{0};
}

// One call: time passes.
inline Nanoseconds tick() {
  const Nanoseconds step = configuration().clock_nanoseconds;
  return clock_detail::now.fetch_add(step, std::memory_order_relaxed) + step;
}

inline Nanoseconds now() {
  return clock_detail::now.load(std::memory_order_relaxed);
}

// The host has waited until then.
inline void wait_until(Nanoseconds then) {
  Nanoseconds before = now();
  while (before < then && !clock_detail::now.compare_exchange_weak(before, then, std::memory_order_relaxed)) {
  }
}

}  // namespace gmlake::device
