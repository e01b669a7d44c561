// The life of an sBlock after it was made: lending its pBlocks' chunks, taking them back, going when addresses or
// memory run short; and what must hold between sBlocks and pBlocks.
#include <algorithm>
#include <map>

#include "baselines/failures.h"
#include "baselines/paper.h"

namespace gmlake {

// The client has the first `size` bytes in hand; the chunks behind them stay free for others.
void PaperAllocator::lend(StitchedBlock& stitched) {
  std::size_t left = stitched.size / chunk_;
  for (auto run = stitched.runs.begin(); left > 0; ++run) {
    const std::size_t count = std::min(run->count, left);
    Block* lender = carve({run->segment, run->first, count});
    lender->lent = true;
    run->segment->mark(lender, true);
    stitched.lenders.push_back(lender);
    left -= count;
  }
}

// Free neighbours are always joined, so free chunks in a row are within one free pBlock.
Block* PaperAllocator::carve(const ChunkRun& run) {
  const Address begin = run.segment->address + run.first * chunk_;
  const Bytes size = run.count * chunk_;
  Block* block = run.segment->first;
  while (block->address + block->size <= begin) block = block->next;
  const PoolKind kind = block->pool->kind;
  block->pool->blocks.erase(block);
  if (block->split()) {
    statistics_.inactive_split.decrease(kind, 1);
    statistics_.inactive_split_bytes.decrease(kind, signed_bytes(block->size));
  }
  if (block->address < begin) {
    Block* before = block;
    block = cut(block, begin - block->address);
    put_piece(before);
  }
  if (block->size > size) put_piece(cut(block, size));
  return block;
}

void PaperAllocator::put_piece(Block* block) {
  block->pool->insert(block);
  statistics_.inactive_split.increase(block->pool->kind, 1);
  statistics_.inactive_split_bytes.increase(block->pool->kind, signed_bytes(block->size));
}

void PaperAllocator::settle(Block* block) {
  if (!block->stitched) {
    if (block->pool->kind == PoolKind::large) segment_of(block).mark(block, false);
    CachingAllocator::settle(block);
    return;
  }
  auto& stitched = static_cast<StitchedBlock&>(*block);
  const PoolKind kind = stitched.pool->kind;
  statistics_.active.decrease(kind, 1);
  statistics_.active_bytes.decrease(kind, signed_bytes(stitched.size));
  statistics_.requested_bytes.decrease(kind, signed_bytes(stitched.requested));
  for (Block* lender : stitched.lenders) {
    lender->lent = false;
    segment_of(lender).mark(lender, false);
    put_back(lender);
  }
  stitched.lenders.clear();
  stitched.released = ++releases_;
  record_last_use(stitched);
  idle_.insert(&stitched);
}

void PaperAllocator::record_last_use(StitchedBlock& stitched) {
  Event& event = stitched.last_use;
  if (event == 0 && driver_.create_event(event) != Status::success) event = 0;
  if (event == 0 || driver_.record(event, stitched.stream) == Status::success) return;
  (void)driver_.destroy_event(event);
  event = 0;
}

bool PaperAllocator::finished(StitchedBlock& stitched) {
  if (stitched.last_use == 0) {
    sync_stream(stitched.stream);
    return true;
  }
  const Status status = driver_.query(stitched.last_use);
  if (status == Status::not_ready) return false;
  expect_success(status, "query");
  return true;
}

void PaperAllocator::collect_stitched(int time, Bytes need) {
  std::map<Stream, std::vector<StitchedBlock*>> fragmented, available;
  for (StitchedBlock* stitched : idle_)
    (stitched->available() ? available : fragmented)[stitched->stream].push_back(stitched);
  const auto sweep = [this](std::vector<StitchedBlock*>& candidates, Bytes enough) {
    std::ranges::sort(candidates, {}, &StitchedBlock::released);
    Bytes gained = 0;
    for (StitchedBlock* stitched : candidates) {
      if (gained >= enough || !finished(*stitched)) break;
      gained += stitched->capacity;
      drop(stitched);
    }
  };
  const bool bounded = need > 0 && time <= 1;
  for (auto& [stream, candidates] : fragmented)
    sweep(candidates, bounded ? need << (2 * (time + 1)) : CachingOptions::unlimited);
  if (time == 0) return;
  for (auto& [stream, candidates] : available) sweep(candidates, CachingOptions::unlimited);
}

void PaperAllocator::drop(StitchedBlock* stitched) {
  expect_success(driver_.unmap(stitched->address, stitched->mapped), "unmap");
  forget(stitched);
}

void PaperAllocator::forget(StitchedBlock* stitched) {
  (void)driver_.free_range(stitched->address, stitched->capacity);
  if (stitched->last_use != 0) (void)driver_.destroy_event(stitched->last_use);
  statistics_.sblocks.decrease(1);
  statistics_.address_bytes.decrease(signed_bytes(stitched->capacity));
  statistics_.mapped_bytes.decrease(signed_bytes(stitched->mapped));
  stitched_bytes_ -= stitched->capacity;
  idle_.erase(stitched);
  stitched_.erase(stitched->address);
}

void PaperAllocator::release_free(BlockPool& pool) {
  if (pool.kind == PoolKind::small) {
    CachingAllocator::release_free(pool);
    return;
  }
  std::set<ChunkSegment*> doomed;
  std::set<Stream> streams;
  for (const Block* block : pool.blocks) {
    if (block->split()) continue;
    doomed.insert(&segment_of(block));
    streams.insert(block->stream);
  }
  for (const Stream stream : streams) sync_stream(stream);
  detach(doomed);
  for (ChunkSegment* segment : doomed) {
    expect_success(segment->give_back(driver_), "unmap");
    statistics_.address_bytes.decrease(signed_bytes(segment->size));
    statistics_.mapped_bytes.decrease(signed_bytes(segment->size));
    remove_segment(*segment);
  }
}

// An sBlock in use can have only unused chunks at its end among them: those are unmapped, and it serves no more.
void PaperAllocator::detach(const std::set<ChunkSegment*>& doomed) {
  if (doomed.empty()) return;
  const auto touches = [&](const ChunkRun& run) { return doomed.contains(run.segment); };
  for (auto next = stitched_.begin(); next != stitched_.end();) {
    StitchedBlock* stitched = (next++)->second.get();
    if (std::ranges::none_of(stitched->runs, touches)) continue;
    if (stitched->lenders.empty()) {
      drop(stitched);
      continue;
    }
    expect_success(driver_.unmap(stitched->address + stitched->size, stitched->mapped - stitched->size), "unmap");
    statistics_.mapped_bytes.decrease(signed_bytes(stitched->mapped - stitched->size));
    stitched->mapped = stitched->size;
    stitched->runs.clear();
  }
}

void PaperAllocator::trim_locked() {
  CachingAllocator::trim_locked();
  collect_stitched(2, 0);
}

void PaperAllocator::add_stitched(std::vector<SegmentInfo>& segments) const {
  using State = BlockInfo::State;
  for (const auto& [address, stitched] : stitched_) {
    SegmentInfo info{.address = stitched->address,
                     .size = stitched->capacity,
                     .stream = stitched->stream,
                     .pool = stitched->pool->id,
                     .stitched = true,
                     .blocks = {}};
    const Bytes used = stitched->lenders.empty() ? 0 : stitched->size;
    const State state = stitched->allocated ? State::active_allocated : State::active_pending_free;
    if (used > 0) info.blocks.push_back({stitched->address, used, stitched->requested, state});
    if (used < stitched->capacity)
      info.blocks.push_back({stitched->address + used, stitched->capacity - used, 0, State::inactive});
    segments.push_back(std::move(info));
  }
}

void PaperAllocator::check_stitched(Statistics& counted) const {
  std::size_t lent = 0, lenders = 0;
  for (const auto& [address, segment] : segments_) {
    if (segment->pool.kind == PoolKind::small) continue;
    const auto& chunks = static_cast<const ChunkSegment&>(*segment);
    expect(chunks.chunks.size() * chunk_ == segment->size, name(), "that chunks fill their segment");
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      lent += block->lent ? 1 : 0;
      const std::size_t first = (block->address - address) / chunk_;
      for (std::size_t i = first; i < first + block->size / chunk_; ++i)
        expect(chunks.busy[i] != block->free(), name(), "that a chunk is busy as long as its pBlock is");
    }
  }
  Bytes bytes = 0;
  for (const auto& [address, stitched] : stitched_) {
    const auto size = signed_bytes(stitched->size);
    bytes += stitched->capacity;
    lenders += stitched->lenders.size();
    check_lenders(*stitched);
    if (stitched->lenders.empty()) continue;
    counted.active.increase(PoolKind::large, 1);
    counted.active_bytes.increase(PoolKind::large, size);
    counted.requested_bytes.increase(PoolKind::large, signed_bytes(stitched->requested));
    if (!stitched->allocated) continue;
    counted.allocation.increase(PoolKind::large, 1);
    counted.allocated_bytes.increase(PoolKind::large, size);
  }
  expect(lent == lenders, name(), "that a pBlock is lent to one sBlock in use");
  expect(bytes == stitched_bytes_, name(), "that the addresses of sBlocks are counted");
}

void PaperAllocator::check_lenders(const StitchedBlock& stitched) const {
  const bool idle = idle_.contains(const_cast<StitchedBlock*>(&stitched));
  expect(idle == stitched.lenders.empty(), name(), "that an sBlock is idle or in use");
  Bytes lent = 0, chunks = 0;
  for (const Block* lender : stitched.lenders) {
    expect(lender->lent && !lender->allocated, name(), "that the pBlocks of an sBlock in use are lent");
    lent += lender->size;
  }
  for (const ChunkRun& run : stitched.runs) chunks += run.count * chunk_;
  expect(idle || lent == stitched.size, name(), "that the pBlocks of an sBlock in use have its size");
  expect(!stitched.whole() || chunks == stitched.capacity, name(), "that an sBlock's chunks fill it");
}

}  // namespace gmlake
