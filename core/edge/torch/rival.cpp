#include "edge/torch/rival.h"

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "baselines/catalogue.h"
#include "driver/simulated.h"

namespace gmlake::rival {

std::atomic<bool> running = false;

namespace {

struct Shadow {
  std::unique_ptr<SimulatedDriver> driver;
  std::unique_ptr<Allocator> allocator;
  std::unordered_map<Address, Address> blocks;  // real -> simulated
};

struct Shadows {
  std::mutex mutex;
  std::array<Shadow, most_devices> by_device;
};

// Never destroyed: memory is freed until the very end of the process.
Shadows& shadows() {
  static auto* const only = new Shadows;
  return *only;
}

// The rival may run out where GMLake does not, or refuse what it does not know: that only makes it hold less.
template <typename Act>
void lenient(Act act) noexcept {
  try {
    act();
  } catch (...) {
  }
}

// Does something with the shadow of a device that has one.
template <typename Act>
void with(int device, Act act) noexcept {
  lenient([&] {
    std::lock_guard lock(shadows().mutex);
    Shadow& shadow = shadows().by_device.at(static_cast<std::size_t>(device));
    if (shadow.allocator != nullptr) act(shadow);
  });
}

void make(const ProcessDevice& device) {
  std::lock_guard lock(shadows().mutex);
  Shadow& shadow = shadows().by_device.at(static_cast<std::size_t>(device.driver.device()));
  if (shadow.allocator != nullptr) return;
  Bytes free = 0, total = 0;
  if (device.driver.memory_info(free, total) != Status::success) return;
  SimulatedOptions options;
  options.capacity = total;
  shadow.driver = std::make_unique<SimulatedDriver>(options);
  shadow.allocator = make_allocator("caching", *shadow.driver);
}

}  // namespace

void start() {
  running = true;
}

void allocate(const ProcessDevice& device, Address block, Bytes size, Stream stream) {
  make(device);
  with(device.driver.device(),
       [&](Shadow& shadow) { shadow.blocks[block] = shadow.allocator->allocate(size, stream); });
}

void release(int device, Address block) noexcept {
  with(device, [&](Shadow& shadow) {
    const auto found = shadow.blocks.find(block);
    if (found == shadow.blocks.end()) return;
    shadow.allocator->release(found->second);
    shadow.blocks.erase(found);
  });
}

void record_stream(int device, Address block, Stream stream) {
  with(device, [&](Shadow& shadow) {
    const auto found = shadow.blocks.find(block);
    if (found != shadow.blocks.end()) shadow.allocator->record_stream(found->second, stream);
  });
}

void begin_pool(const ProcessDevice& device, TorchPool pool, const TorchFilter& filter) {
  make(device);
  with(device.driver.device(), [&](Shadow& shadow) {
    shadow.allocator->begin_pool({pool.first, pool.second},
                                 [filter](Stream stream) { return filter(reinterpret_cast<void*>(stream)); });
  });
}

void end_pool(int device, TorchPool pool) {
  with(device, [&](Shadow& shadow) { shadow.allocator->end_pool({pool.first, pool.second}); });
}

void release_pool(int device, TorchPool pool) {
  with(device, [&](Shadow& shadow) { shadow.allocator->release_pool({pool.first, pool.second}); });
}

void trim() {
  for (int device = 0; device < most_devices; ++device) with(device, [](Shadow& s) { s.allocator->trim(); });
}

void reset_peaks(int device) {
  with(device, [](Shadow& shadow) { shadow.allocator->reset_peaks(); });
}

std::optional<Statistics> statistics(int device) {
  std::optional<Statistics> found;
  with(device, [&](Shadow& shadow) { found = shadow.allocator->statistics(); });
  return found;
}

}  // namespace gmlake::rival
