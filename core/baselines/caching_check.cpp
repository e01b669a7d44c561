// What the caching allocator holds, for others to look at, and whether it is in order.
#include <algorithm>

#include "baselines/caching.h"
#include "baselines/failures.h"

namespace gmlake {

std::vector<SegmentInfo> CachingAllocator::segments() const {
  std::lock_guard lock(mutex_);
  std::vector<SegmentInfo> result;
  for (const auto& [address, segment] : segments_)
    for (const Block* block = segment->first; block != nullptr; block = block->next)
      if (block->mapped && (block->prev == nullptr || !block->prev->mapped)) result.push_back(info_of(block));
  add_stitched(result);
  return result;
}

// A run of mapped blocks: all of a segment, unless it is expandable.
SegmentInfo CachingAllocator::info_of(const Block* first) const {
  const Segment& segment = *first->segment;
  SegmentInfo info{.address = first->address,
                   .stream = segment.stream,
                   .kind = segment.pool.kind,
                   .pool = segment.pool.id,
                   .expandable = segment.expandable(),
                   .blocks = {}};
  for (const Block* block = first; block != nullptr && block->mapped; block = block->next) {
    using State = BlockInfo::State;
    const State state = block->allocated || block->lent ? State::active_allocated
                        : block->free()                 ? State::inactive
                                                        : State::active_pending_free;
    info.size += block->size;
    info.blocks.push_back({block->address, block->size, block->requested, state});
  }
  return info;
}

void CachingAllocator::check() const {
  std::lock_guard lock(mutex_);
  Statistics counted;
  PoolCounts unused;
  for (const auto& [address, segment] : segments_) {
    expect(address == segment->address, name(), "that a segment is filed under its address");
    check_segment(*segment, counted, unused);
  }
  check_stitched(counted);
  for (const auto& [address, block] : allocated_)
    expect(block->allocated && block->address == address, name(), "that a block in use is filed under its address");
  expect(static_cast<std::size_t>(counted.allocation.all().current) == allocated_.size(), name(),
         "that the allocated blocks are those in the client's hands");
  const auto check_pools = [&](const PoolPair& pools) {
    for (const BlockPool* pool : {&pools.small, &pools.large})
      expect(pool->blocks.size() + pool->unmapped.size() == unused[pool], name(),
             "that a pool holds its free blocks and nothing else");
  };
  check_pools(ordinary_);
  for (const auto& [id, pools] : private_) check_pools(*pools);
  expect_same(counted, statistics_, name());
}

void CachingAllocator::check_segment(const Segment& segment, Statistics& counted, PoolCounts& unused) const {
  const PoolKind kind = segment.pool.kind;
  if (!segment.expandable()) counted.segment.increase(kind, 1);
  Address next = segment.address;
  const Block* prev = nullptr;
  for (const Block* block = segment.first; block != nullptr; prev = block, block = block->next) {
    const auto size = signed_bytes(block->size);
    expect(block->address == next && block->size > 0, name(), "that blocks fill their segment");
    expect(block->prev == prev && block->segment == &segment && block->pool == &segment.pool &&
               block->stream == segment.stream,
           name(), "that blocks know their neighbours, segment, pool and stream");
    expect(prev == nullptr || !prev->free() || !block->free() || prev->mapped != block->mapped, name(),
           "that free neighbours are joined");
    next += block->size;
    if (block->mapped) counted.reserved_bytes.increase(kind, size);
    if (block->free()) {
      const auto& pool = segment.pool;
      expect(block->mapped ? pool.blocks.contains(const_cast<Block*>(block))
                           : pool.unmapped.contains(const_cast<Block*>(block)),
             name(), "that a free block waits in its pool");
      ++unused[&segment.pool];
      if (block->split() && !segment.expandable()) {
        counted.inactive_split.increase(kind, 1);
        counted.inactive_split_bytes.increase(kind, size);
      }
    } else if (!block->lent) {
      counted.active.increase(kind, 1);
      counted.active_bytes.increase(kind, size);
      counted.requested_bytes.increase(kind, signed_bytes(block->requested));
    }
    if (!block->allocated) continue;
    const auto found = allocated_.find(block->address);
    expect(found != allocated_.end() && found->second == block, name(), "that an allocated block can be released");
    counted.allocation.increase(kind, 1);
    counted.allocated_bytes.increase(kind, size);
  }
  expect(next == segment.address + segment.size, name(), "that blocks fill their segment");
}

}  // namespace gmlake
