// The heaps that are compared, all seen as allocate and release, and the loop that is timed. A heap from the catalogue
// is called through the Allocator interface, as PyTorch's plug-in does it; the other two directly.
#pragma once

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "baselines/catalogue.h"
#include "driver/simulated.h"
#include "ordered_set.h"
#include "workload.h"

namespace gmlake::bench {

struct FromCatalogue {
  FromCatalogue(const std::string& name, Bytes) : allocator(make_allocator(name, driver)) {}
  Address allocate(Bytes size) { return allocator->allocate(size, 0); }
  void release(Address address) { allocator->release(address); }
  std::uint64_t driver_calls() const {
    std::uint64_t calls = 0;
    for (const CallCount& count : driver.counts()) calls += count.calls;
    return calls;
  }
  std::size_t free_blocks() const {
    std::size_t count = 0;
    for (const SegmentInfo& segment : allocator->segments())
      for (const BlockInfo& block : segment.blocks) count += block.state == BlockInfo::State::inactive;
    return count;
  }

  SimulatedDriver driver;
  std::unique_ptr<Allocator> allocator;
};

struct FromOrderedSet : OrderedSet {
  FromOrderedSet(const std::string&, Bytes bytes) : OrderedSet(Address{1} << 40, bytes) {}
  std::uint64_t driver_calls() const { return 0; }
};

// glibc's heap hands out host memory and writes its book-keeping into it; with small blocks only, so that all of it
// stays in the heap and out of the kernel.
struct FromGlibc {
  FromGlibc(const std::string&, Bytes) {}
  Address allocate(Bytes size) { return reinterpret_cast<Address>(std::malloc(size)); }
  void release(Address address) { std::free(reinterpret_cast<void*>(address)); }
  std::uint64_t driver_calls() const { return 0; }
  std::size_t free_blocks() const { return 0; }
};

// Out of line and by name, so that callgrind can be told to count in here alone.
template <typename Heap>
[[gnu::noinline]] void timed_pairs(Heap& heap, std::span<const Step> steps, std::span<Address> live) {
  for (const Step& step : steps) {
    heap.release(live[step.index]);
    live[step.index] = heap.allocate(Workload::unit * step.units);
  }
}

class Contender {
 public:
  virtual ~Contender() = default;
  // Nanoseconds per pair over the steps [from, to) of every thread: of CPU time for one thread, of the clock for more.
  virtual double run(std::size_t from, std::size_t to) = 0;
  virtual std::uint64_t driver_calls() const = 0;
  virtual std::size_t free_blocks() const = 0;
};

template <typename Heap>
class ContenderOf final : public Contender {
 public:
  ContenderOf(const std::string& name, const Workload& workload)
      : workload_(workload), heap_(name, workload.bytes()), live_(workload.shares.size()) {
    std::vector<Address> surplus;
    for (std::size_t thread = 0; thread < live_.size(); ++thread) {
      const Share& share = workload.shares[thread];
      for (std::size_t slot = 0; slot < share.slots.size(); ++slot) {
        (share.live[slot] ? live_[thread] : surplus).push_back(heap_.allocate(share.slots[slot]));
        (void)heap_.allocate(workload.wall);
      }
    }
    for (Address address : surplus) heap_.release(address);
  }

  double run(std::size_t from, std::size_t to) override {
    auto steps = [&](std::size_t thread) { return std::span(workload_.shares[thread].steps).subspan(from, to - from); };
    if (live_.size() == 1) {
      const double start = cpu_nanoseconds();
      timed_pairs(heap_, steps(0), live_[0]);
      return (cpu_nanoseconds() - start) / static_cast<double>(to - from);
    }
    std::barrier together(static_cast<std::ptrdiff_t>(live_.size()) + 1);
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < live_.size(); ++thread)
      threads.emplace_back([&, thread] {
        together.arrive_and_wait();
        timed_pairs(heap_, steps(thread), live_[thread]);
        together.arrive_and_wait();
      });
    together.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    together.arrive_and_wait();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / static_cast<double>((to - from) * live_.size());
  }

  std::uint64_t driver_calls() const override { return heap_.driver_calls(); }
  std::size_t free_blocks() const override { return heap_.free_blocks(); }

 private:
  static double cpu_nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
  }

  const Workload& workload_;
  Heap heap_;
  std::vector<std::vector<Address>> live_;  // by thread
};

inline std::unique_ptr<Contender> make_contender(const std::string& name, const Workload& workload) {
  if (name == "ordered-set") return std::make_unique<ContenderOf<FromOrderedSet>>(name, workload);
  if (name == "glibc") return std::make_unique<ContenderOf<FromGlibc>>(name, workload);
  return std::make_unique<ContenderOf<FromCatalogue>>(name, workload);
}

}  // namespace gmlake::bench
