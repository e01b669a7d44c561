// Feeds a trace to an allocator, event by event, and reports what happened: peaks, retries, where memory ran out, the
// driver's calls and time in every iteration, the allocator's own CPU time. It knows the Allocator interface only and
// takes the driver just to read its counters. It neither reads trace files nor interprets results: Python does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator.h"
#include "driver/driver.h"
#include "replay/facts.h"
#include "replay/memory_map.h"

namespace gmlake {

struct ReplayOptions {
  std::uint64_t sample_every = 0;                   // events between samples of the timeline; 0: no timeline
  std::uint64_t check_every = 0;                    // events between calls of check(); 0: never
  SimulatedDriver* map = nullptr;                   // the driver, if a memory map is wanted; it must keep places
  std::function<void(std::uint64_t fed)> progress;  // called every few thousand events; what it throws ends the replay
};

struct Sample {
  std::uint64_t event = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::int64_t reserved = 0;
};

struct ReplayOutcome {
  std::uint64_t events = 0;  // fed, the one that ran out of memory not included
  TraceFacts facts;          // of what was fed
  Bytes peak_reserved = 0;
  std::int64_t retries = 0;
  std::optional<std::uint64_t> out_of_memory;  // index of the event that could not be served; the replay stops there
  std::string out_of_memory_message;
  std::vector<CallCounts> iterations;  // [0] is what came before the first mark, [i] is the i-th iteration
  std::vector<Sample> timeline;        // every sample_every events, and wherever reserved reached a new peak
  MemoryMap map;                       // empty unless it was asked for
  double cpu_seconds = 0;              // of the calling thread; the simulated driver's book-keeping is included
};

// Throws InvalidArgument that names the event for a trace that contradicts itself, BrokenInvariant from check().
ReplayOutcome replay(const TraceColumns& trace, Allocator& allocator, const Driver& driver,
                     const ReplayOptions& options = {});

}  // namespace gmlake
