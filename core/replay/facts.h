// What follows from a trace alone, before any allocator sees it: that it does not contradict itself, and its peaks,
// which are therefore the same for every allocator. Memory that another stream still uses (record_stream) counts until
// the free, not longer: a trace does not say when the other stream ends.
#pragma once

#include <cstdint>
#include <span>

#include "base/vocabulary.h"

namespace gmlake {

enum class EventKind : std::uint8_t {
  allocate,       // id, size, stream
  free,           // id
  iteration,      // an iteration starts here; as the last event: the last iteration ends here
  record_stream,  // id is used on stream
  begin_pool,     // id names the pool, which serves all streams until end_pool
  end_pool,
  release_pool,
  trim,
};

// Four columns of equal length. Ids are dense: they index a table.
struct TraceColumns {
  std::span<const std::uint8_t> kind;
  std::span<const std::uint32_t> id;
  std::span<const std::int64_t> size;
  std::span<const std::uint32_t> stream;
};

struct TraceFacts {
  static constexpr Bytes active_rounding = 512;  // PyTorch's smallest block

  std::size_t ids = 0;         // all of them are below
  Bytes peak_requested = 0;    // as asked
  Bytes peak_active = 0;       // every size rounded up to active_rounding
  std::size_t peak_event = 0;  // after which that much is active, for the first time
};

// Throws InvalidArgument that names the event for a trace that contradicts itself.
TraceFacts examine(const TraceColumns& trace);
TraceFacts examine(const TraceColumns& trace, std::size_t events);  // its first events only

}  // namespace gmlake
