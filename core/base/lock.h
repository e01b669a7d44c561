// A lock for sections of some ten nanoseconds. Taking it is one atomic operation and giving it back a plain store,
// where a mutex must ask on every unlock whether somebody sleeps: that second atomic operation costs as much as a
// cached allocation itself. The price is that nobody is woken: a thread that waits spins for a moment, then offers its
// core to others, then naps, so that waiting for an unusually long section (it calls the driver) burns no core.
#pragma once

#include <atomic>

namespace gmlake {

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  [[gnu::always_inline]] void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[gnu::always_inline]] bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void wait();

  std::atomic<bool> taken_ = false;
};

// Holds a lock while it exists. std::lock_guard, but for compilers that would rather call its two lines.
class [[nodiscard]] Guard {
 public:
  [[gnu::always_inline]] explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  [[gnu::always_inline]] ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace gmlake
