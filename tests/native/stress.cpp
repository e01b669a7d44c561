// Threads that allocate, pass blocks to each other, use them on several streams, open private pools, trim and look at
// statistics, all at random, on two devices, with every allocator of the catalogue. No two blocks may ever share
// memory, the books must balance, and nothing may be left. Meant to be built with sanitizers. Usage: stress [SECONDS]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "base/units.h"
#include "baselines/catalogue.h"
#include "witness.h"

namespace {

using namespace gmlake;
using namespace gmlake::testing;

constexpr int devices = 2;
constexpr Stream streams = 40;  // more than have a lane of their own

// One device is small, the other one large but limited to as much: an allocator may treat large ones differently.
struct Device {
  static constexpr Bytes memory = 512 * MiB;

  Device(std::string_view spec, int number)
      : driver(SimulatedOptions{.capacity = number == 0 ? memory : 64 * GiB, .device = number}),
        allocator(make_allocator(spec, driver)) {
    allocator->set_limit(memory);
  }

  SimulatedDriver driver;
  Witness witness{driver};
  std::unique_ptr<Allocator> allocator;
};

struct Block {
  Device* device;
  Address address;
};

// Blocks on their way from one thread to another.
class Mailbox {
 public:
  void put(Block block) {
    std::lock_guard lock(mutex_);
    blocks_.push_back(block);
  }
  bool take(Block& block) {
    std::lock_guard lock(mutex_);
    if (blocks_.empty()) return false;
    block = blocks_.back();
    blocks_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
};

class Worker {
 public:
  Worker(unsigned number, std::vector<std::unique_ptr<Device>>& all, Mailbox& mailbox)
      : random_(number), devices_(all), mailbox_(mailbox), pool_{0, number + 1} {}

  void work(const std::atomic<bool>& stop) {
    for (; !stop; ++steps_) step();
    for (const Block& block : blocks_) release(block);
  }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t refusals() const { return refusals_; }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  Device& device() { return *devices_[below(devices_.size())]; }

  void step() {
    const std::uint64_t dice = below(1000);
    if (dice < 450) {
      allocate(device(), below(streams));
    } else if (dice < 800) {
      if (!blocks_.empty()) release(pick());
    } else if (dice < 850) {
      if (!blocks_.empty()) mailbox_.put(pick());
    } else if (dice < 900) {
      if (Block block{}; mailbox_.take(block)) release(block);
    } else if (dice < 960) {
      if (blocks_.empty()) return;
      const Block& block = blocks_[below(blocks_.size())];
      block.device->allocator->record_stream(block.address, below(streams));
    } else if (dice < 980) {
      below(2) != 0 ? device().driver.hold(below(streams)) : device().driver.finish(below(streams));
    } else if (dice < 990) {
      look(device());
    } else if (dice < 997) {
      capture(device());
    } else {
      device().allocator->trim();
    }
  }

  Bytes size() {
    const std::uint64_t dice = below(100);
    if (dice < 50) return 1 + below(64 * KiB);
    if (dice < 80) return 1 + below(4 * MiB);
    return dice < 97 ? 1 + below(24 * MiB) : 1 + below(200 * MiB);
  }

  void allocate(Device& device, Stream stream) {
    const Bytes bytes = size();
    try {
      const Address address = device.allocator->allocate(bytes, stream);
      device.witness.received(address, bytes);
      blocks_.push_back({&device, address});
    } catch (const OutOfMemory&) {
      ++refusals_;
      for (std::size_t half = blocks_.size() / 2; half > 0; --half) release(pick());
    }
  }

  Block pick() {
    std::swap(blocks_[below(blocks_.size())], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

  void release(const Block& block) {
    block.device->witness.returning(block.address);
    block.device->allocator->release(block.address);
  }

  // A pool of the thread's own, on a stream of its own.
  void capture(Device& device) {
    const Stream own = streams + pool_.user;
    device.allocator->begin_pool(pool_, [own](Stream stream) { return stream == own; });
    for (int block = 0; block < 5; ++block) allocate(device, own);
    device.allocator->end_pool(pool_);
    device.allocator->release_pool(pool_);
  }

  void look(const Device& device) {
    device.allocator->check();
    device.witness.verify();
    (void)device.allocator->segments();
    (void)device.allocator->statistics();
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Device>>& devices_;
  Mailbox& mailbox_;
  const PoolId pool_;
  std::vector<Block> blocks_;
  std::uint64_t steps_ = 0;
  std::uint64_t refusals_ = 0;
};

void expect_empty(const Device& device) {
  if (device.driver.physical_bytes() != 0 || device.driver.mappings() != 0 || device.driver.ranges() != 0 ||
      device.driver.events() != 0)
    throw Failure("something outlived the allocator");
}

// Runs the threads, rethrows what the first of them threw.
void run(std::string_view spec, unsigned threads, std::chrono::duration<double> time) {
  std::vector<std::unique_ptr<Device>> all;
  for (int number = 0; number < devices; ++number) all.push_back(std::make_unique<Device>(spec, number));
  Mailbox mailbox;
  std::vector<Worker> workers;
  for (unsigned number = 0; number < threads; ++number) workers.emplace_back(number, all, mailbox);

  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> running;
    for (Worker& worker : workers)
      running.emplace_back([&] {
        try {
          worker.work(stop);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (failure == nullptr) failure = std::current_exception();
          stop = true;
        }
      });
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stop && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  }
  if (failure != nullptr) std::rethrow_exception(failure);

  for (Block block{}; mailbox.take(block);) block.device->allocator->release(block.address);
  std::uint64_t steps = 0;
  std::uint64_t refusals = 0;
  for (const Worker& worker : workers) {
    steps += worker.steps();
    refusals += worker.refusals();
  }
  for (auto& device : all) {
    device->allocator->trim();
    device->allocator->check();
    device->allocator.reset();
    expect_empty(*device);
  }
  std::printf("stress %-10s %u threads, %llu steps, %llu out of memory: ok\n", std::string(spec).c_str(), threads,
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(refusals));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const std::chrono::duration<double> time(count > 1 ? std::atof(words[1]) : 1.0);
  bool sound = true;
  for (const CatalogueRow& row : catalogue())
    for (const unsigned threads : {1u, 8u}) try {
        run(row.name, threads, time);
      } catch (const std::exception& error) {
        sound = false;
        std::printf("stress %-10s %u threads: %s\n", std::string(row.name).c_str(), threads, error.what());
      }
  return sound ? EXIT_SUCCESS : EXIT_FAILURE;
}
