// A span of an arena. Extents tile the arena's range in address order without gaps or overlaps; neighbours of one kind
// that may be joined always are. A block that spans the free space of several lanes is a run of live extents of which
// all but the last have `joined` set.
#pragma once

#include "base/vocabulary.h"
#include "order/clock.h"

namespace gmlake {

struct alignas(64) Extent {  // a cache line
  enum class State : std::uint8_t {
    hole,   // addresses only, nothing mapped
    dying,  // the old address of chunks that have moved on, until it can be unmapped
    free,   // mapped and inactive
    live,   // a pBlock
    lent,   // inactive at this address: an sBlock that is in use has the chunks
    limbo,  // released by the client, still used by a stream
  };

  Address address = 0;
  Bytes size = 0;
  Extent* previous = nullptr;
  Extent* next = nullptr;
  union {
    Extent* bin_next = nullptr;  // free: among the free extents of its size
    LaneSet uses;                // live, limbo: further lanes the block was used on
  };
  union {
    Extent* bin_previous = nullptr;
    Bytes requested;  // live, limbo: what the client asked for (on the first extent of a block)
  };
  State state = State::hole;
  bool joined = false;  // live: the block goes on in the next extent
  Lane owner = 0;       // whose free space this is, also while another lane borrows it
  Lane user = 0;        // live, limbo: the lane of the block's stream
  Clock clock;          // free: of the last releases

  Address end() const { return address + size; }
  bool idle() const { return state == State::free || state == State::hole; }
  bool mapped() const { return state != State::hole && state != State::dying; }
};
static_assert(sizeof(Extent) == 64);

}  // namespace gmlake
