#include "edge/process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "baselines/catalogue.h"
#include "driver/cuda.h"

namespace gmlake {
namespace {

constexpr std::string_view prefix = "GMLAKE_";
// Switches of the product that its other parts read: not options of the allocator.
constexpr std::array<std::string_view, 4> switches{"GMLAKE_DEVICE", "GMLAKE_EMULATE", "GMLAKE_RECORD", "GMLAKE_LOG"};

struct Slot {
  std::mutex making;
  std::unique_ptr<CudaDriver> driver;
  std::unique_ptr<Allocator> owner;
  std::atomic<Allocator*> allocator = nullptr;  // set last: whoever sees it sees the rest
};

// Never destroyed: see the head of process.h.
Slot& slot(int device) {
  if (device < 0 || device >= most_devices)
    throw InvalidArgument("device " + std::to_string(device) + " does not exist; expected 0 to " +
                          std::to_string(most_devices - 1));
  static auto* const slots = new std::array<Slot, most_devices>;
  return (*slots)[static_cast<std::size_t>(device)];
}

const CatalogueRow& our_row() {
  for (const CatalogueRow& row : catalogue())
    if (row.name == "gmlake") return row;
  throw BrokenInvariant("the catalogue has no allocator called gmlake");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

}  // namespace

Options options_from_environment() {
  Options options(our_row().options);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with(prefix) || equals == std::string_view::npos) continue;
    const std::string_view name = variable.substr(0, equals);
    if (std::ranges::find(switches, name) != switches.end()) continue;
    try {
      options.set(lower(name.substr(prefix.size())), variable.substr(equals + 1));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(name) + ": " + error.what());
    }
  }
  return options;
}

ProcessDevice process_device(int device) {
  Slot& s = slot(device);
  if (s.allocator.load(std::memory_order_acquire) == nullptr) {
    std::lock_guard lock(s.making);
    if (s.owner == nullptr) {
      const Options options = options_from_environment();
      s.driver = std::make_unique<CudaDriver>(device);
      s.owner = our_row().make(*s.driver, options);
      s.allocator.store(s.owner.get(), std::memory_order_release);
    }
  }
  return {*s.driver, *s.owner};
}

Allocator* process_allocator_if_used(int device) noexcept {
  return device < 0 || device >= most_devices ? nullptr : slot(device).allocator.load(std::memory_order_acquire);
}

}  // namespace gmlake
