#include "baselines/expandable.h"

#include <algorithm>

#include "base/units.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

// No card has more, and a simulated one without a limit must not ask for all addresses there are.
constexpr Bytes largest_device = 2 * TiB;

ExpandableSegment& segment_of(const Block* block) {
  return static_cast<ExpandableSegment&>(*block->segment);
}

// What the block can become without taking memory from others.
Bytes room(const Block* block) {
  return block->size + (block->next != nullptr && !block->next->mapped ? block->next->size : 0);
}

}  // namespace

bool ExpandableAllocator::should_split(const Block& block, Bytes size) const {
  return block.size - size >= CachingOptions::block_step;
}

// Best fit, except that the block at the growing end counts as large as it could grow: it is left for later while a
// larger block with less room serves.
Block* ExpandableAllocator::find(const Request& request) {
  BlockPool& pool = *request.pool;
  if (limit_ && options_.garbage_collection_threshold > 0) ++pool.searches;
  Block key{.size = request.size, .stream = request.stream, .used_on = {}};
  auto fit = pool.blocks.lower_bound(&key);
  const auto usable = [&](auto at) { return at != pool.blocks.end() && (*at)->stream == request.stream; };
  if (!usable(fit)) return nullptr;
  for (auto next = std::next(fit); usable(next) && room(*next) < room(*fit); ++next) fit = next;
  Block* block = *fit;
  if (!may_serve(*block, request)) return nullptr;
  pool.blocks.erase(fit);
  return block;
}

Block* ExpandableAllocator::grow(const Request& request) {
  if (exceeds_limit(options_.segment_size(request.size))) return nullptr;
  Block* block = find_room(request);
  if (block == nullptr) return nullptr;
  if (!block->mapped && !map(block, std::min(block->size, request.size))) return nullptr;
  while (block->size < request.size) {
    Block* next = block->next;  // takes the free block before it in
    if (!map(next, std::min(next->size, request.size - block->size))) return nullptr;
    block = next;
  }
  block->pool->blocks.erase(block);
  return block;
}

Block* ExpandableAllocator::find_room(const Request& request) {
  const auto suffices = [&](const Block* block) {
    Bytes bytes = 0;
    for (; bytes < request.size && block != nullptr && block->free(); block = block->next) bytes += block->size;
    return bytes >= request.size;
  };
  Block key{.stream = request.stream, .used_on = {}};
  const auto& unmapped = request.pool->unmapped;
  for (auto next = unmapped.lower_bound(&key); next != unmapped.end() && (*next)->stream == request.stream; ++next) {
    Block* block = *next;
    if (block->prev != nullptr && block->prev->free()) block = block->prev;
    if (suffices(block)) return block;
  }
  return add_range(request);
}

// A range for the device's memory and an eighth more, so that pages can move to its end.
Block* ExpandableAllocator::add_range(const Request& request) {
  Bytes free = 0, total = 0;
  expect_success(driver_.memory_info(free, total), "memory_info");
  const Bytes wanted = request.pool->kind == PoolKind::small ? CachingOptions::small_segment : options_.large_segment;
  const Bytes page = round_up(wanted, driver_.granularity());
  const Bytes device = std::min(total, largest_device);
  const Bytes size = round_up(std::max(device + device / 8, request.size), page);
  Address range = 0;
  const Status status = driver_.reserve(size, range);
  if (status == Status::out_of_memory) return nullptr;
  expect_success(status, "reserve");
  Block* block = add_segment(std::make_unique<ExpandableSegment>(range, size, page, request.stream, *request.pool));
  block->mapped = false;
  request.pool->unmapped.insert(block);
  statistics_.address_bytes.increase(signed_bytes(size));
  return block;
}

bool ExpandableAllocator::map(Block* block, Bytes size) {
  const Bytes mapped = segment_of(block).map(driver_, block->address, size);
  if (mapped == 0) return false;
  BlockPool& pool = *block->pool;
  pool.unmapped.erase(block);
  if (mapped < block->size) pool.unmapped.insert(cut(block, mapped));
  block->mapped = true;
  join(block, block->prev);
  join(block, block->next);
  pool.insert(block);
  count_mapped(pool, signed_bytes(mapped));
  statistics_.mapped_bytes.increase(signed_bytes(mapped));
  return true;
}

void ExpandableAllocator::unmap_pages(Block* block) {
  ExpandableSegment& segment = segment_of(block);
  BlockPool& pool = *block->pool;
  Address first = 0, last = 0;
  if (!segment.whole_pages(block->address, block->size, first, last)) return;
  sync_stream(segment.stream);
  expect_success(segment.unmap(driver_, first, last), "unmap");
  const auto bytes = signed_bytes(last - first);
  pool.blocks.erase(block);
  if (const Bytes before = first - block->address; before > 0) {
    Block* kept = block;
    block = cut(block, before);
    pool.insert(kept);
  }
  if (block->size > last - first) pool.insert(cut(block, last - first));
  block->mapped = false;
  join(block, block->prev);
  join(block, block->next);
  pool.unmapped.insert(block);
  count_mapped(pool, -bytes);
  statistics_.mapped_bytes.decrease(bytes);
}

// A range goes when the last of its pages does. One that never held any (memory ran out before) stays for the next
// request, as it does in PyTorch.
void ExpandableAllocator::release_free(BlockPool& pool) {
  for (Block* block : std::vector<Block*>(pool.blocks.begin(), pool.blocks.end())) unmap_pages(block);
  for (Block* block : std::vector<Block*>(pool.unmapped.begin(), pool.unmapped.end())) {
    if (block->split() || segment_of(block).handles.empty()) continue;
    Segment& segment = *block->segment;
    expect_success(segment.give_back(driver_), "free_range");
    statistics_.address_bytes.decrease(signed_bytes(segment.size));
    remove_segment(segment);
  }
}

std::unique_ptr<Allocator> make_expandable(Driver& driver, const Options& options) {
  return std::make_unique<ExpandableAllocator>(driver, CachingOptions(options));
}

}  // namespace gmlake
