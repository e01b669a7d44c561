#include "edge/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "baselines/catalogue.h"
#include "driver/cuda.h"
#include "driver/simulated.h"

namespace gmlake {
namespace {

constexpr std::string_view prefix = "GMLAKE_";
// Variables with our prefix that are no options of the allocator, but of the parts around it.
constexpr std::array<std::string_view, 6> others{"DEVICE", "EMULATE", "RECORD", "LOG", "COMPARE", "BRIDGE"};

struct Slot {
  std::mutex making;
  std::unique_ptr<CudaDriver> driver;
  std::unique_ptr<Allocator> owner;
  Board board;                                  // on which the owner's counters are seen by other processes
  std::atomic<Allocator*> allocator = nullptr;  // set last: whoever sees it sees the rest
  std::atomic<double> fraction = 1;
};

struct Process {
  std::array<Slot, most_devices> slots;
  std::atomic<int> end = 0;                    // no device from this one on was ever in use
  std::atomic<bool> begun = false;             // some device is in use, or about to be
  std::atomic<bool> inherited = false;         // forked from a process that had begun
  std::mutex setting;                          // guards what follows
  std::map<std::string, std::string> options;  // by set_process_option
  std::size_t journal = 0;
};

// Never destroyed: see the head of process.h.
Process& process() {
  static Process* const only = [] {
    auto* const made = new Process;
    static Process* kept = made;
    // Locks may have been held by threads that do not exist in the child, and the driver does not survive a fork:
    // from then on nobody finds an allocator.
    pthread_atfork(nullptr, nullptr, [] {
      if (!kept->begun) return;
      kept->inherited = true;
      for (Slot& slot : kept->slots) {
        slot.allocator = nullptr;
        slot.board.detach();
      }
    });
    return made;
  }();
  return *only;
}

Slot& slot(int device) {
  if (device < 0 || device >= most_devices)
    throw InvalidArgument("device " + std::to_string(device) + " does not exist; expected 0 to " +
                          std::to_string(most_devices - 1));
  return process().slots[static_cast<std::size_t>(device)];
}

const CatalogueRow& row(std::string_view name) {
  for (const CatalogueRow& candidate : catalogue())
    if (candidate.name == name) return candidate;
  throw BrokenInvariant("the catalogue has no allocator called " + std::string(name));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

bool strict() {
  const char* const wanted = std::getenv("GMLAKE");
  return wanted != nullptr && std::string_view(wanted) == "strict";
}

void keep_journal(Allocator& allocator, std::size_t entries, bool clear) {
  try {
    clear ? allocator.start_journal(entries) : allocator.resize_journal(entries);
  } catch (const InvalidArgument&) {
    // It keeps none.
  }
}

Bytes memory_of(Driver& driver) {
  Bytes free = 0, total = 0;
  return driver.memory_info(free, total) == Status::success ? total : 0;
}

// GMLake, or what comes nearest to having no GMLake at all.
void make(Slot& s, int device) {
  try {
    s.driver = std::make_unique<CudaDriver>(device);
    const Board::Scope scope(s.board);
    s.owner = row("gmlake").make(*s.driver, options_from_environment());
    s.board.show(device, memory_of(*s.driver), s.owner->gauges());
  } catch (const NoVirtualMemory& error) {
    if (strict()) throw;
    std::fprintf(stderr, "gmlake: %s; it is served as by PyTorch itself, without stitching\n", error.what());
    s.driver = std::make_unique<CudaDriver>(device, CudaDriver::Needs::whole_allocations);
    s.owner = make_allocator("caching", *s.driver);
  }
}

void check(const Options& options) {
  SimulatedDriver nowhere;  // an allocator is the judge of what its options mean
  (void)row("gmlake").make(nowhere, options);
}

}  // namespace

Options options_from_environment() {
  Options options(row("gmlake").options);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with(prefix) || equals == std::string_view::npos) continue;
    const std::string_view name = variable.substr(prefix.size(), equals - prefix.size());
    if (std::ranges::find(others, name) != others.end()) continue;
    try {
      options.set(lower(name), variable.substr(equals + 1));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(variable.substr(0, equals)) + ": " + error.what());
    }
  }
  std::lock_guard lock(process().setting);
  for (const auto& [name, value] : process().options) options.set(name, value);
  return options;
}

void check_process_options() {
  check(options_from_environment());
}

void set_process_option(std::string_view name, std::string_view value) {
  if (process().end > 0) throw InvalidArgument("option " + std::string(name) + " comes too late: a device is in use");
  Options options(row("gmlake").options);
  options.set(name, value);
  check(options);
  std::lock_guard lock(process().setting);
  process().options.insert_or_assign(std::string(name), std::string(value));
}

void set_process_fraction(int device, double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    throw InvalidArgument("a memory fraction of " + std::to_string(fraction) + " is impossible; expected 0 to 1");
  const ProcessDevice used = process_device(device);
  Bytes free = 0, total = 0;
  if (const Status status = used.driver.memory_info(free, total); status != Status::success)
    throw DriverError("device " + std::to_string(device) +
                      " does not say how much memory it has: " + std::string(to_string(status)));
  used.allocator.set_limit(static_cast<Bytes>(fraction * static_cast<double>(total)));
  slot(device).fraction = fraction;
}

void keep_process_journals(std::size_t entries, bool clear) {
  Journal().start(entries);  // is the number possible?
  std::lock_guard lock(process().setting);
  process().journal = entries;
  for (Slot& slot : process().slots)
    if (Allocator* const allocator = slot.allocator) keep_journal(*allocator, entries, clear);
}

std::size_t process_journals() {
  std::lock_guard lock(process().setting);
  return process().journal;
}

double process_fraction(int device) {
  return slot(device).fraction;
}

ProcessDevice process_device(int device) {
  Slot& s = slot(device);
  if (s.allocator.load(std::memory_order_acquire) == nullptr) [[unlikely]] {
    if (process().inherited)
      throw DriverError(
          "this process was forked from one that uses the GPU and cannot use it too; start it with the method 'spawn'");
    std::lock_guard lock(s.making);
    if (s.owner == nullptr) {
      process().begun = true;
      make(s, device);
      std::lock_guard setting(process().setting);
      if (process().journal > 0) keep_journal(*s.owner, process().journal, true);
      for (int end = process().end; end <= device && !process().end.compare_exchange_weak(end, device + 1);) continue;
      s.allocator.store(s.owner.get(), std::memory_order_release);
    }
  }
  return {*s.driver, *s.owner};
}

Allocator* process_allocator_if_used(int device) noexcept {
  return device < 0 || device >= most_devices ? nullptr : slot(device).allocator.load(std::memory_order_acquire);
}

Allocator* process_allocator_of(Address block, int& device) noexcept {
  const int end = process().end.load(std::memory_order_acquire);
  Allocator* last = nullptr;
  int used = 0;
  for (int number = 0; number < end; ++number) {
    Allocator* const allocator = process_allocator_if_used(number);
    if (allocator == nullptr) continue;
    ++used;
    last = allocator;
    device = number;
  }
  if (used < 2) [[likely]]
    return last;  // which would complain if it did not know the block
  for (int number = 0; number < end; ++number) {
    Allocator* const allocator = process_allocator_if_used(number);
    if (allocator == nullptr || allocator->block_size(block) == 0) continue;
    device = number;
    return allocator;
  }
  return nullptr;
}

}  // namespace gmlake
