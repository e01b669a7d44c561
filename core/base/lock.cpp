#include "base/lock.h"

#include <chrono>
#include <thread>

namespace gmlake {
namespace {

constexpr int spins = 100;  // a microsecond or two: many sections of the usual length
constexpr int offers = 20;  // of the core, in case the holder has none
constexpr std::chrono::microseconds nap{50};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Lock::wait() {
  for (int turn = 0;; ++turn) {
    // Looking before trying leaves the holder's cache line alone.
    if (!taken_.load(std::memory_order_relaxed) && try_lock()) return;
    if (turn < spins)
      pause();
    else if (turn < spins + offers)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(nap);
  }
}

}  // namespace gmlake
