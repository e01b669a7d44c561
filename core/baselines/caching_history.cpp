// Continuing a recorded history: the caching allocator takes over segments as they stood at some moment, and can be
// put right where it decided otherwise than the recorded run did.
#include "base/error.h"
#include "baselines/caching.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

void check_filled(const SegmentInfo& segment) {
  Address next = segment.address;
  bool filled = !segment.blocks.empty();
  for (const BlockInfo& block : segment.blocks) {
    filled = filled && block.address == next && block.size > 0;
    next += block.size;
  }
  if (!filled || next != segment.address + segment.size)
    throw InvalidArgument("the blocks of the segment at " + std::to_string(segment.address) + " do not fill its " +
                          std::to_string(segment.size) + " bytes; they must, in order and without gaps");
}

}  // namespace

void CachingAllocator::adopt(std::span<const SegmentInfo> segments) {
  std::lock_guard lock(mutex_);
  for (const SegmentInfo& info : segments) {
    check_filled(info);
    Address address = 0;
    expect_success(driver_.allocate(info.size, address), "allocate");
    if (address != info.address) {
      expect_success(driver_.free(address), "free");
      throw InvalidArgument("the driver gave address " + std::to_string(address) + " for the recorded segment at " +
                            std::to_string(info.address) + "; it must hand out that one");
    }
    PoolPair& pools = pools_of(info.pool);
    BlockPool& pool = info.kind == PoolKind::small ? pools.small : pools.large;
    Block* rest = add_segment(std::make_unique<Segment>(info.address, info.size, info.stream, pool));
    for (const BlockInfo& recorded : info.blocks) {
      Block* block = rest;
      if (recorded.size < block->size) rest = cut(block, recorded.size);
      if (recorded.state == BlockInfo::State::inactive) {
        pool.insert(block);
        if (info.blocks.size() == 1) continue;
        statistics_.inactive_split.increase(pool.kind, 1);
        statistics_.inactive_split_bytes.increase(pool.kind, signed_bytes(block->size));
      } else {
        count_handed_out(block, recorded.requested);
        allocated_.emplace(block->address, block);
      }
    }
  }
}

bool CachingAllocator::place(Address address, Bytes size, Stream stream) {
  check_size(size);
  std::lock_guard lock(mutex_);
  const Request request{.requested = size, .size = rounded(size), .stream = stream};
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return false;
  Block* block = std::prev(after)->second->first;
  while (block != nullptr && block->address + block->size <= address) block = block->next;
  if (block == nullptr || !block->free() || !block->mapped || block->stream != stream) return false;
  const Bytes before = address - block->address;
  if (request.size > block->size - before) return false;
  block->pool->blocks.erase(block);
  if (before > 0) {
    Block* free_before = block;
    const bool was_split = block->split();
    block = cut(block, before);
    free_before->pool->insert(free_before);
    // One free block has become two, of which one is about to be handed out as any other split block.
    statistics_.inactive_split.increase(block->pool->kind, was_split ? 1 : 2);
    if (!was_split) statistics_.inactive_split_bytes.increase(block->pool->kind, signed_bytes(before + block->size));
  }
  block = hand_out(block, request);
  allocated_.emplace(block->address, block);
  return true;
}

bool CachingAllocator::give_back(Address segment) {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(segment);
  if (found == segments_.end() || !found->second->first->free() || found->second->first->split()) return false;
  release_segment(found->second->first);
  return true;
}

}  // namespace gmlake
