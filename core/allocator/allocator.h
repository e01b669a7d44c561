// The one interface of every allocator: ours and the ones we compare with. Replay, tests, benchmarks and the edge see
// nothing else. One object serves one device; methods may be called from any thread.
//
// Mistakes throw InvalidArgument and change nothing. allocate throws OutOfMemory after the allocator has tried all it
// can; the allocator stays usable. Everything else only fails if the driver is lost (DriverError).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/vocabulary.h"
#include "watch/board.h"
#include "watch/journal.h"
#include "watch/statistics.h"

namespace gmlake {

inline constexpr Bytes largest_request = 128 * TiB;  // more than any device can address

// One block of a segment, as PyTorch's snapshot shows it.
struct BlockInfo {
  // lent: in use under another address, that of a stitched segment
  enum class State : std::uint8_t { inactive, active_allocated, active_pending_free, lent };
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  State state = State::inactive;
};

// A contiguous piece of reserved memory and its blocks in address order, without gaps.
struct SegmentInfo {
  Address address = 0;
  Bytes size = 0;
  Stream stream = 0;
  PoolKind kind = PoolKind::large;
  PoolId pool;
  bool expandable = false;
  bool stitched = false;  // addresses over memory that other segments count
  std::vector<BlockInfo> blocks;
};

// The two figures that are asked for with every allocation while PyTorch profiles.
struct Totals {
  Bytes allocated = 0;
  Bytes reserved = 0;
};

// A block in use, as a checkpoint of its pool remembers it.
struct LiveBlock {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  Stream stream = 0;
};

// As messages name a pool.
inline std::string written(PoolId pool) {
  return "(" + std::to_string(pool.capture) + ", " + std::to_string(pool.user) + ")";
}

using StreamFilter = std::function<bool(Stream)>;

class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;  // gives everything back to the driver

  virtual Address allocate(Bytes size, Stream stream) = 0;  // size 0 -> address 0
  virtual void release(Address address) = 0;                // address 0 is ignored
  virtual void record_stream(Address address, Stream stream) = 0;

  // Between begin and end, allocations on streams that pass the filter come from the pool alone. Every begin adds one
  // use; when release_pool has taken the last one back, the pool's memory returns to the allocator as it becomes free.
  virtual void begin_pool(PoolId pool, StreamFilter filter) = 0;
  virtual void end_pool(PoolId pool) = 0;
  virtual void release_pool(PoolId pool) = 0;

  // What only some allocators can do with pools; the others throw InvalidArgument.
  virtual void retain_pool(PoolId) { throw no_such_pools(); }  // makes it if need be, and adds one use
  virtual int pool_uses(PoolId) const { return 0; }            // 0: unknown, or all were released
  virtual void trim_pool(PoolId) {}                            // gives its memory back if it has no uses
  virtual void share_pool(PoolId, bool on) {                   // serves others before they run out
    if (on) throw no_such_pools();
  }
  // A checkpoint of a pool is its blocks in use. Restoring one releases every block of the pool that is in use and
  // takes those of the checkpoint again at their addresses, with their contents; returns what was released.
  virtual std::vector<LiveBlock> live_blocks(PoolId) const { throw no_such_pools(); }
  virtual std::vector<LiveBlock> restore_pool(PoolId, std::span<const LiveBlock>) { throw no_such_pools(); }

  virtual void trim() = 0;                     // give back what can be given back (empty_cache)
  virtual void set_limit(Bytes reserved) = 0;  // never reserve more than this; the driver's capacity still counts

  virtual Statistics statistics() const = 0;
  virtual Totals totals() const {
    const Statistics all = statistics();
    return {static_cast<Bytes>(all.allocated_bytes.all().current),
            static_cast<Bytes>(all.reserved_bytes.all().current)};
  }
  virtual void reset_peaks() = 0;
  virtual void reset_accumulated() = 0;
  virtual std::vector<SegmentInfo> segments() const = 0;
  virtual std::vector<Gauge> gauges() const { return {}; }  // counters that may be read at any time, without asking
  virtual Bytes block_size(Address address) const;          // 0: no block that is in use begins there

  // The latest events, if the allocator keeps a journal; none unless started.
  virtual void start_journal(std::size_t) { throw InvalidArgument("this allocator keeps no journal"); }
  virtual void resize_journal(std::size_t entries) { start_journal(entries); }  // keeps the latest events
  virtual std::vector<JournalEntry> journal() const { return {}; }
  virtual void annotate(Address) {}  // notes the thread's remark about a block in use; of another address nothing
  virtual void note_snapshot() {}    // notes that somebody looked

  virtual void check() const = 0;  // throws BrokenInvariant

 private:
  static InvalidArgument no_such_pools() { return InvalidArgument("this allocator cannot do that with a pool"); }
};

inline Bytes Allocator::block_size(Address address) const {
  for (const SegmentInfo& segment : segments()) {
    if (address < segment.address || address >= segment.address + segment.size) continue;
    for (const BlockInfo& block : segment.blocks)
      if (block.address == address && block.state == BlockInfo::State::active_allocated) return block.size;
  }
  return 0;
}

}  // namespace gmlake
