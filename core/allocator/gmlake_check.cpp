// What our allocator shows of itself: segments for a snapshot, and the check of every invariant.
#include <string>

#include "allocator/gmlake.h"
#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

// Runs of mapped memory. A block of several extents is shown as one.
void show_arena(const Arena& arena, const Fences& fences, PoolId pool, std::vector<SegmentInfo>& segments) {
  const Extent* before = nullptr;
  for (const Extent* extent = arena.first(); extent != nullptr; before = extent, extent = extent->next) {
    if (!extent->mapped()) continue;
    if (before == nullptr || !before->mapped()) {
      segments.push_back({.address = extent->address,
                          .size = 0,
                          .stream = fences.stream(extent->owner),
                          .kind = PoolKind::large,
                          .pool = pool,
                          .expandable = true,
                          .stitched = false,
                          .blocks = {}});
    }
    SegmentInfo& segment = segments.back();
    segment.size += extent->size;
    if (before != nullptr && before->joined) {
      segment.blocks.back().size += extent->size;
      continue;
    }
    const auto state = extent->state == Extent::State::live    ? BlockInfo::State::active_allocated
                       : extent->state == Extent::State::limbo ? BlockInfo::State::active_pending_free
                       : extent->state == Extent::State::lent  ? BlockInfo::State::lent
                                                               : BlockInfo::State::inactive;
    const bool used = extent->state == Extent::State::live || extent->state == Extent::State::limbo;
    segment.blocks.push_back({extent->address, extent->size, used ? extent->requested : 0, state});
  }
}

void show_stitched(const Stitched& stitched, const Fences& fences, PoolId pool, std::vector<SegmentInfo>& segments) {
  for (const auto& [address, block] : stitched.all()) {
    const auto state = !block->active ? BlockInfo::State::inactive
                       : block->limbo ? BlockInfo::State::active_pending_free
                                      : BlockInfo::State::active_allocated;
    segments.push_back({.address = address,
                        .size = block->size,
                        .stream = fences.stream(block->user),
                        .kind = PoolKind::large,
                        .pool = pool,
                        .expandable = true,
                        .stitched = true,
                        .blocks = {}});
    std::vector<BlockInfo>& blocks = segments.back().blocks;
    const Bytes used = block->active ? block->serves : block->size;
    blocks.push_back({address, used, block->active ? block->requested : 0, state});
    if (used < block->size) blocks.push_back({address + used, block->size - used, 0, BlockInfo::State::inactive});
  }
}

void show_slabs(const SmallPool& small, const Slabs& slabs, PoolId pool, std::vector<SegmentInfo>& segments) {
  slabs.each_spare([&](Address at, Bytes size) {  // of no stream in particular
    segments.push_back({.address = at,
                        .size = size,
                        .stream = 0,
                        .kind = PoolKind::small,
                        .pool = pool,
                        .expandable = false,
                        .stitched = false,
                        .blocks = {{at, size, 0, BlockInfo::State::inactive}}});
  });
  small.each_slab([&](const SmallPool::Slab& slab) {
    SegmentInfo segment{.address = slab.address,
                        .size = slab.units * unit,
                        .stream = slab.shelf->stream,
                        .kind = PoolKind::small,
                        .pool = pool,
                        .expandable = false,
                        .stitched = false,
                        .blocks = {}};
    for (std::size_t place = 0; place < slab.units; place += slab.blocks[place].size) {
      const SmallPool::Block& block = slab.blocks[place];
      const auto state = !block.live   ? BlockInfo::State::inactive
                         : block.limbo ? BlockInfo::State::active_pending_free
                                       : BlockInfo::State::active_allocated;
      segment.blocks.push_back({block.address(), block.bytes(), block.live ? block.use.requested : 0, state});
    }
    segments.push_back(std::move(segment));
  });
}

// Bytes of blocks that are out, and of chunks that are at home in the pool.
struct Sum {
  Bytes active = 0;
  Bytes mapped = 0;
};

Sum sum_of(const Lake& lake, const SmallPool& small) {
  Sum sum;
  for (const Extent* extent = lake.arena().first(); extent != nullptr; extent = extent->next) {
    if (extent->mapped()) sum.mapped += extent->size;
    if (extent->state == Extent::State::live || extent->state == Extent::State::limbo ||
        (extent->previous != nullptr && extent->previous->joined && extent->state != Extent::State::lent))
      sum.active += extent->size;
  }
  for (const auto& [address, block] : lake.stitched().all())
    if (block->active) sum.active += block->serves;
  small.each_slab([&](const SmallPool::Slab& slab) {
    for (std::size_t place = 0; place < slab.units; place += slab.blocks[place].size)
      if (slab.blocks[place].live) sum.active += slab.blocks[place].bytes();
  });
  return sum;
}

}  // namespace

std::vector<SegmentInfo> GMLakeAllocator::segments() const {
  const Guard guard(lock_);
  std::vector<SegmentInfo> result;
  each_pool([&](const Pool& pool) {
    show_arena(pool.lake.arena(), supply_.fences, pool.id, result);
    show_slabs(pool.small, pool.slabs, pool.id, result);
    show_stitched(pool.lake.stitched(), supply_.fences, pool.id, result);
  });
  return result;
}

// PyTorch's inactive_split: free memory that cannot be given back because a part of its chunk is in use. Found by
// walking, so its peak is the highest value that anyone has looked at.
void GMLakeAllocator::refresh_inactive() const {
  Lake::Splinters large;
  Lake::Splinters small;
  each_pool([&](const Pool& pool) {
    const Lake::Splinters splinters = pool.lake.splinters();
    large.count += splinters.count;
    large.bytes += splinters.bytes;
    pool.small.each_slab([&](const SmallPool::Slab& slab) {
      for (std::size_t place = 0; slab.live > 0 && place < slab.units; place += slab.blocks[place].size) {
        if (slab.blocks[place].live) continue;
        ++small.count;
        small.bytes += signed_bytes(slab.blocks[place].bytes());
      }
    });
  });
  auto show = [](StatArray& array, PoolKind kind, std::int64_t value) {
    array.change(kind, value - array.by[static_cast<std::size_t>(kind)].current);
  };
  Statistics& statistics = supply_.statistics;
  show(statistics.inactive_split, PoolKind::large, large.count);
  show(statistics.inactive_split, PoolKind::small, small.count);
  show(statistics.inactive_split_bytes, PoolKind::large, large.bytes);
  show(statistics.inactive_split_bytes, PoolKind::small, small.bytes);
}

void GMLakeAllocator::check() const {
  const Guard guard(lock_);
  auto fail = [](const std::string& what) { throw BrokenInvariant("allocator: " + what); };
  Bytes active = 0;
  Bytes mapped = 0;
  each_pool([&](const Pool& pool) {
    pool.lake.check();
    pool.slabs.check();
    pool.small.check();
    const Sum sum = sum_of(pool.lake, pool.small);
    active += sum.active;
    mapped += sum.mapped + pool.slabs.bytes();
  });
  const Bytes reserved = supply_.chunks.reserved();
  if (reserved != static_cast<Bytes>(supply_.statistics.reserved_bytes.all().current))
    fail("the statistics of reserved bytes differ from the chunks that exist");
  if (mapped + supply_.chunks.doomed_bytes() != reserved)
    fail("active and inactive bytes do not add up to reserved bytes");
  if (active != supply_.tally.active()) fail("active bytes differ from the blocks that are out");
}

}  // namespace gmlake
