// What the caching allocator does when no free block fits: collect garbage, ask the driver, give oversize blocks back,
// give everything back, and give up. Also where segments come into being and end.
#include <algorithm>

#include "baselines/caching.h"
#include "baselines/failures.h"

namespace gmlake {

Block* CachingAllocator::acquire(const Request& request) {
  if (Block* block = find(request)) return block;
  if (limit_ && options_.garbage_collection_threshold > 0) collect_garbage();
  if (Block* block = grow(request)) return block;
  if (request.capturing) return nullptr;
  if (release_oversize(request))
    if (Block* block = grow(request)) return block;
  release_cached();
  ++statistics_.num_alloc_retries;
  return grow(request);
}

bool CachingAllocator::exceeds_limit(Bytes more) const {
  return limit_ && reserved() + more > *limit_;
}

Block* CachingAllocator::add_segment(std::unique_ptr<Segment> segment) {
  Segment& added = *segment;
  segments_.emplace(added.address, std::move(segment));
  ++added.pool.segments;
  const bool ordered = options_.ties == CachingOptions::Ties::registration;
  Block* block = cover(added, ordered ? ++registrations_ : 0);
  if (added.expandable()) return block;
  statistics_.segment.increase(added.pool.kind, 1);
  count_mapped(added.pool, signed_bytes(added.size));
  if (added.size >= options_.max_split) statistics_.oversize_segments.increase(1);
  return block;
}

void CachingAllocator::remove_segment(Segment& segment) {
  Block* block = segment.first;
  if (block->mapped)
    segment.pool.blocks.erase(block);
  else
    segment.pool.unmapped.erase(block);
  if (!segment.expandable()) {
    statistics_.segment.decrease(segment.pool.kind, 1);
    count_mapped(segment.pool, -signed_bytes(segment.size));
    if (segment.size >= options_.max_split) statistics_.oversize_segments.decrease(1);
  }
  --segment.pool.segments;
  segments_.erase(segment.address);
}

void CachingAllocator::count_mapped(BlockPool& pool, std::int64_t bytes) {
  ++(bytes > 0 ? statistics_.num_device_alloc : statistics_.num_device_free);
  statistics_.count_reserved(pool.kind, pool.id, bytes);
}

void CachingAllocator::release_segment(Block* block) {
  expect_success(block->segment->give_back(driver_), "free");
  remove_segment(*block->segment);
}

void CachingAllocator::release_free(BlockPool& pool) {
  for (auto next = pool.blocks.begin(); next != pool.blocks.end();) {
    Block* block = *next++;
    if (!block->split()) release_segment(block);
  }
}

void CachingAllocator::release_cached() {
  ++statistics_.num_sync_all_streams;
  pending_.wait([this](Block* block) { settle(block); });
  release_free(ordinary_.large);
  release_free(ordinary_.small);
  for (auto next = private_.begin(); next != private_.end();) {
    const auto entry = next++;
    PoolPair& pools = *entry->second;
    if (!scopes_.released(entry->first)) continue;
    release_free(pools.small);
    release_free(pools.large);
    if (pools.small.segments + pools.large.segments > 0) continue;
    scopes_.forget(entry->first);
    private_.erase(entry);
  }
}

// With max_split_size, first only as many oversize blocks of this stream as the request needs: one that is large
// enough, or else several from the largest down.
bool CachingAllocator::release_oversize(const Request& request) {
  if (options_.max_split == CachingOptions::unlimited) return false;
  std::set<Block*, BySize>& blocks = request.pool->blocks;
  Block key{.size = std::max(request.size, options_.max_split), .stream = request.stream, .used_on = {}};
  const auto releasable = [&](const Block* block) { return !block->split() && !block->segment->expandable(); };
  auto next = blocks.lower_bound(&key);
  if (next != blocks.end() && (*next)->stream == request.stream && releasable(*next)) {
    release_segment(*next);
    return true;
  }
  Bytes released = 0;
  while (next != blocks.begin() && released < key.size) {
    Block* block = *std::prev(next);
    if (block->size < options_.max_split || block->stream != request.stream) break;
    if (!releasable(block)) {
      --next;
      continue;
    }
    released += block->size;
    release_segment(block);
  }
  return released >= key.size;
}

// Gives back unsplit blocks of the large pool that are older than the average, until the use is below the threshold;
// without waiting for anything. The age of a block is the number of searches since it became free.
void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<Bytes>(options_.garbage_collection_threshold * static_cast<double>(*limit_));
  if (reserved() <= threshold) return;
  const Bytes target = reserved() - threshold;
  BlockPool& pool = ordinary_.large;
  Bytes reclaimed = 0;
  std::uint64_t total_age = 0, count = 0;
  for (const Block* block : pool.blocks) {
    if (block->split()) continue;
    total_age += pool.age(block);
    ++count;
  }
  bool freed = true;
  while (reclaimed < target && freed && count > 0) {
    const double average = static_cast<double>(total_age) / static_cast<double>(count);
    freed = false;
    for (auto next = pool.blocks.begin(); next != pool.blocks.end();) {
      Block* block = *next++;
      if (block->split() || block->segment->expandable()) continue;
      if (static_cast<double>(pool.age(block)) < average) continue;
      freed = true;
      reclaimed += block->size;
      total_age -= pool.age(block);
      --count;
      release_segment(block);
    }
  }
}

void CachingAllocator::trim() {
  std::lock_guard lock(mutex_);
  if (!capturing_anywhere()) trim_locked();
}

void CachingAllocator::trim_locked() {
  release_cached();
  pending_.drop_spares();
}

void CachingAllocator::sync_stream(Stream stream) {
  Event event = 0;
  expect_success(driver_.create_event(event), "create_event");
  const Status recorded = driver_.record(event, stream);
  const Status waited = recorded == Status::success ? driver_.synchronize(event) : recorded;
  (void)driver_.destroy_event(event);
  expect_success(waited, "synchronize");
}

Bytes CachingAllocator::free_in_private_pools() const {
  Bytes total = 0;
  for (const auto& [id, pools] : private_)
    for (const BlockPool* pool : {&pools->small, &pools->large})
      for (const Block* block : pool->blocks) total += block->size;
  return total;
}

}  // namespace gmlake
