#include "replay/facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

// The size of a table of ids. Ids far beyond the number of events would make it absurdly large.
std::size_t count_ids(const TraceColumns& trace) {
  const std::size_t events = trace.kind.size();
  if (trace.id.size() != events || trace.size.size() != events || trace.stream.size() != events)
    throw InvalidArgument("the columns kind, id, size and stream of a trace must have equal lengths, not " +
                          std::to_string(events) + ", " + std::to_string(trace.id.size()) + ", " +
                          std::to_string(trace.size.size()) + " and " + std::to_string(trace.stream.size()));
  std::size_t ids = 0;
  for (std::size_t i = 0; i < events; ++i)
    if (trace.kind[i] == static_cast<std::uint8_t>(EventKind::allocate))
      ids = std::max(ids, std::size_t{trace.id[i]} + 1);
  if (ids > 4 * events + 1024)
    throw InvalidArgument("allocation id " + std::to_string(ids - 1) + " is too large for a trace of " +
                          std::to_string(events) + " events; number the allocations densely from 0");
  return ids;
}

[[noreturn]] void refuse(std::size_t event, const std::string& why) {
  throw InvalidArgument("event " + std::to_string(event) + " of the trace: " + why);
}

[[noreturn]] void refuse(std::size_t event, std::uint32_t id, const std::string& why) {
  refuse(event, "allocation " + std::to_string(id) + " " + why);
}

}  // namespace

TraceFacts examine(const TraceColumns& trace) {
  return examine(trace, trace.kind.size());
}

TraceFacts examine(const TraceColumns& trace, std::size_t events) {
  constexpr std::int64_t not_live = -1;
  TraceFacts facts{.ids = count_ids(trace)};
  std::vector<std::int64_t> live(facts.ids, not_live);  // the sizes of those that are
  Bytes requested = 0;
  Bytes active = 0;
  for (std::size_t event = 0; event < events; ++event) {
    const std::uint32_t id = trace.id[event];
    switch (static_cast<EventKind>(trace.kind[event])) {
      case EventKind::allocate: {
        const std::int64_t size = trace.size[event];
        if (size < 0) refuse(event, id, "has size " + std::to_string(size) + "; a size is 0 or more");
        if (live[id] != not_live) refuse(event, id, "is allocated again before it is freed");
        live[id] = size;
        requested += static_cast<Bytes>(size);
        active += round_up(static_cast<Bytes>(size), TraceFacts::active_rounding);
        facts.peak_requested = std::max(facts.peak_requested, requested);
        if (active > facts.peak_active) {
          facts.peak_active = active;
          facts.peak_event = event;
        }
        break;
      }
      case EventKind::free:
        if (id >= live.size() || live[id] == not_live) refuse(event, id, "is freed but not live");
        requested -= static_cast<Bytes>(live[id]);
        active -= round_up(static_cast<Bytes>(live[id]), TraceFacts::active_rounding);
        live[id] = not_live;
        break;
      case EventKind::record_stream:
        if (id >= live.size() || live[id] == not_live) refuse(event, id, "is recorded on a stream but not live");
        break;
      default:
        if (trace.kind[event] > static_cast<std::uint8_t>(EventKind::trim))
          refuse(event, "kind " + std::to_string(trace.kind[event]) + " is unknown; kinds are 0 to " +
                            std::to_string(static_cast<int>(EventKind::trim)));
    }
  }
  return facts;
}

}  // namespace gmlake
