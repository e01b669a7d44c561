#include "replay/replay.h"

#include <ctime>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

constexpr std::uint64_t progress_every = 4096;  // a power of two; a slow allocator still answers several times a second

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A pool of the trace by its number; {0, 0} would be the ordinary pool.
PoolId pool_id(std::uint32_t number) {
  return {std::uint64_t{number} + 1, 0};
}

std::string at_event(std::uint64_t index, const char* message) {
  return "event " + std::to_string(index) + " of the trace: " + message;
}

class Player {
 public:
  Player(const TraceColumns& trace, Allocator& allocator, const Driver& driver, const ReplayOptions& options)
      : trace_(trace),
        allocator_(allocator),
        driver_(driver),
        options_(options),
        facts_(examine(trace)),
        addresses_(facts_.ids),
        counts_(driver.counts()) {}

  ReplayOutcome play() {
    const double start = thread_cpu_seconds();
    std::uint64_t index = 0;
    try {
      for (const std::uint64_t events = trace_.kind.size(); index < events; ++index) {
        feed(index);
        if (observed_) [[unlikely]]
          observe(index);
        if ((index & (progress_every - 1)) == 0 && options_.progress) options_.progress(index);
      }
    } catch (const OutOfMemory& error) {
      outcome_.out_of_memory = index;
      if (options_.map != nullptr) outcome_.map.add_changes(index, *options_.map);
      outcome_.out_of_memory_message = error.what();
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(at_event(index, error.what()));
    } catch (const BrokenInvariant& error) {
      throw BrokenInvariant(at_event(index, error.what()));
    }
    outcome_.cpu_seconds = thread_cpu_seconds() - start;
    const bool ends_on_mark = index > 0 && trace_.kind[index - 1] == static_cast<std::uint8_t>(EventKind::iteration);
    if (!ends_on_mark) close_iteration();
    outcome_.events = index;
    outcome_.facts = index == trace_.kind.size() ? facts_ : examine(trace_, index);
    const Statistics statistics = allocator_.statistics();
    outcome_.peak_reserved = static_cast<Bytes>(statistics.reserved_bytes.all().peak);
    outcome_.retries = statistics.num_alloc_retries;
    return std::move(outcome_);
  }

 private:
  void feed(std::uint64_t index) {
    const std::uint32_t id = trace_.id[index];
    const Stream stream = trace_.stream[index];
    switch (static_cast<EventKind>(trace_.kind[index])) {
      case EventKind::allocate: {
        const auto size = static_cast<Bytes>(trace_.size[index]);
        addresses_[id] = allocator_.allocate(size, stream);
        if (options_.map != nullptr && size != 0)
          outcome_.map.add_block(id, *options_.map, addresses_[id], round_up(size, MemoryMap::rounding));
        return;
      }
      case EventKind::free:
        allocator_.release(addresses_[id]);
        return;
      case EventKind::iteration:
        close_iteration();
        return;
      case EventKind::record_stream:
        allocator_.record_stream(addresses_[id], stream);
        return;
      case EventKind::begin_pool:
        allocator_.begin_pool(pool_id(id), [](Stream) { return true; });
        return;
      case EventKind::end_pool:
        allocator_.end_pool(pool_id(id));
        return;
      case EventKind::release_pool:
        allocator_.release_pool(pool_id(id));
        return;
      case EventKind::trim:
        allocator_.trim();
        return;
    }
  }

  void observe(std::uint64_t index) {
    if (options_.check_every != 0 && (index + 1) % options_.check_every == 0) allocator_.check();
    if (options_.sample_every != 0) sample(index);
    if (options_.map != nullptr) outcome_.map.add_changes(index, *options_.map);
  }

  // Besides every so many events, the peaks. When active memory is at its own is known beforehand; reserved memory
  // grows only through the driver, whose counters are cheaper to watch than the statistics.
  void sample(std::uint64_t index) {
    const CallCounts& counts = driver_.counts();
    const std::uint64_t grown =
        counts[static_cast<std::size_t>(Call::create)].calls + counts[static_cast<std::size_t>(Call::allocate)].calls;
    const bool due =
        index % options_.sample_every == 0 || index + 1 == trace_.kind.size() || index == facts_.peak_event;
    if (!due && grown == grown_) return;
    grown_ = grown;
    const Statistics statistics = allocator_.statistics();
    const std::int64_t reserved = statistics.reserved_bytes.all().current;
    if (!due && reserved <= sampled_peak_) return;
    sampled_peak_ = std::max(sampled_peak_, reserved);
    outcome_.timeline.push_back(
        {index, statistics.allocated_bytes.all().current, statistics.active_bytes.all().current, reserved});
  }

  void close_iteration() {
    const CallCounts& now = driver_.counts();
    CallCounts& delta = outcome_.iterations.emplace_back();
    for (std::size_t kind = 0; kind < call_kinds; ++kind)
      delta[kind] = {now[kind].calls - counts_[kind].calls, now[kind].microseconds - counts_[kind].microseconds};
    counts_ = now;
  }

  const TraceColumns& trace_;
  Allocator& allocator_;
  const Driver& driver_;
  const ReplayOptions& options_;
  const bool observed_ = options_.check_every != 0 || options_.sample_every != 0 || options_.map != nullptr;
  const TraceFacts facts_;
  std::vector<Address> addresses_;  // by id
  CallCounts counts_;               // at the start of the iteration under way
  std::uint64_t grown_ = 0;
  std::int64_t sampled_peak_ = 0;
  ReplayOutcome outcome_;
};

}  // namespace

ReplayOutcome replay(const TraceColumns& trace, Allocator& allocator, const Driver& driver,
                     const ReplayOptions& options) {
  return Player(trace, allocator, driver, options).play();
}

}  // namespace gmlake
