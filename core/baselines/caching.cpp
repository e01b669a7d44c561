// A request from beginning to end: round it, choose the pool, find or make a block, split it, count it; and back.
#include "baselines/caching.h"

#include <algorithm>

#include "base/error.h"
#include "baselines/failures.h"

namespace gmlake {

CachingAllocator::CachingAllocator(Driver& driver, const CachingOptions& options)
    : driver_(driver), options_(options), pending_(driver) {
  if (options_.max_split != CachingOptions::unlimited) statistics_.max_split_size = signed_bytes(options_.max_split);
}

CachingAllocator::~CachingAllocator() {
  for (auto& [address, segment] : segments_) (void)segment->give_back(driver_);
}

Address CachingAllocator::allocate(Bytes size, Stream stream) {
  if (size == 0) return 0;
  check_size(size);
  std::lock_guard lock(mutex_);
  Request request{.requested = size, .size = rounded(size), .stream = stream, .capturing = capturing(stream)};
  if (!request.capturing) pending_.poll([this](Block* block) { settle(block); });
  request.pool = &pool_for(request.size, stream);
  Block* block = acquire(request);
  if (block == nullptr) {
    ++statistics_.num_ooms;
    throw_out_of_memory(driver_, size, stream, statistics_, limit_, free_in_private_pools());
  }
  block = hand_out(block, request);
  allocated_.emplace(block->address, block);
  return block->address;
}

Block* CachingAllocator::find(const Request& request) {
  BlockPool& pool = *request.pool;
  if (limit_ && options_.garbage_collection_threshold > 0) ++pool.searches;
  Block key{.size = request.size, .stream = request.stream, .used_on = {}};
  const auto fit = pool.blocks.lower_bound(&key);
  if (fit == pool.blocks.end() || (*fit)->stream != request.stream) return nullptr;
  Block* block = *fit;
  if (!may_serve(*block, request)) return nullptr;
  pool.blocks.erase(fit);
  return block;
}

bool CachingAllocator::may_serve(const Block& block, const Request& request) const {
  if (request.size < options_.max_split) return block.size < options_.max_split;
  return block.size < request.size + options_.max_non_split_rounding;
}

Block* CachingAllocator::grow(const Request& request) {
  const Bytes size = options_.segment_size(request.size);
  if (exceeds_limit(size)) return nullptr;
  Address address = 0;
  const Status status = driver_.allocate(size, address);
  if (status == Status::out_of_memory) return nullptr;
  expect_success(status, "allocate");
  return add_segment(std::make_unique<Segment>(address, size, request.stream, *request.pool));
}

bool CachingAllocator::should_split(const Block& block, Bytes size) const {
  const Bytes rest = block.size - size;
  if (block.pool->kind == PoolKind::small) return rest >= CachingOptions::block_step;
  return size < options_.max_split && rest > CachingOptions::small_request;
}

Block* CachingAllocator::hand_out(Block* block, const Request& request) {
  const PoolKind kind = block->pool->kind;
  const bool was_split = block->split();
  const bool counts = !block->segment->expandable();
  if (should_split(*block, request.size)) {
    Block* rest = cut(block, request.size);
    rest->pool->insert(rest);
    if (counts && was_split) {
      statistics_.inactive_split_bytes.decrease(kind, signed_bytes(block->size));
    } else if (counts) {
      statistics_.inactive_split_bytes.increase(kind, signed_bytes(rest->size));
      statistics_.inactive_split.increase(kind, 1);
    }
  } else if (counts && was_split) {
    statistics_.inactive_split_bytes.decrease(kind, signed_bytes(block->size));
    statistics_.inactive_split.decrease(kind, 1);
  }
  count_handed_out(block, request.requested);
  return block;
}

void CachingAllocator::count_handed_out(Block* block, Bytes requested) {
  const PoolKind kind = block->pool->kind;
  block->allocated = true;
  block->requested = requested;
  statistics_.allocation.increase(kind, 1);
  statistics_.allocated_bytes.increase(kind, signed_bytes(block->size));
  statistics_.active.increase(kind, 1);
  statistics_.active_bytes.increase(kind, signed_bytes(block->size));
  statistics_.requested_bytes.increase(kind, signed_bytes(requested));
  if (block->size >= options_.max_split) statistics_.oversize_allocations.increase(1);
}

void CachingAllocator::release(Address address) {
  if (address == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) throw_unknown_address(address);
  Block* block = found->second;
  const bool waits = !block->used_on.empty();
  if (waits) pending_.defer(block, capturing(block->stream));
  allocated_.erase(found);
  block->allocated = false;
  const PoolKind kind = block->pool->kind;
  statistics_.allocation.decrease(kind, 1);
  statistics_.allocated_bytes.decrease(kind, signed_bytes(block->size));
  if (block->size >= options_.max_split) statistics_.oversize_allocations.decrease(1);
  if (!waits) settle(block);
}

void CachingAllocator::settle(Block* block) {
  const PoolKind kind = block->pool->kind;
  statistics_.active.decrease(kind, 1);
  statistics_.active_bytes.decrease(kind, signed_bytes(block->size));
  statistics_.requested_bytes.decrease(kind, signed_bytes(block->requested));
  put_back(block);
}

void CachingAllocator::put_back(Block* block) {
  std::int64_t blocks = 0, bytes = 0;
  for (Block* neighbour : {block->prev, block->next}) {
    if (const Bytes gained = join(block, neighbour); gained > 0) {
      --blocks;
      bytes -= signed_bytes(gained);
    }
  }
  block->pool->insert(block);
  if (block->split()) {
    ++blocks;
    bytes += signed_bytes(block->size);
  }
  // Whole pages of an expandable segment can always be given back: PyTorch does not count them.
  if (block->segment->expandable()) return;
  statistics_.inactive_split.change(block->pool->kind, blocks);
  statistics_.inactive_split_bytes.change(block->pool->kind, bytes);
}

void CachingAllocator::record_stream(Address address, Stream stream) {
  if (address == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) throw_unknown_address(address);
  std::vector<Stream>& used_on = found->second->used_on;
  if (stream != found->second->stream && std::ranges::find(used_on, stream) == used_on.end()) used_on.push_back(stream);
}

bool CachingAllocator::capturing(Stream stream) const {
  bool captured = false;
  if (scopes_.open()) expect_success(driver_.is_capturing(stream, captured), "is_capturing");
  return captured;
}

bool CachingAllocator::capturing_anywhere() const {
  return scopes_.open() &&
         std::ranges::any_of(segments_, [&](const auto& entry) { return capturing(entry.second->stream); });
}

BlockPool& CachingAllocator::pool_for(Bytes size, Stream stream) {
  PoolPair& pools = scopes_.open() ? pools_of(scopes_.match(stream)) : ordinary_;
  return size <= CachingOptions::small_request ? pools.small : pools.large;
}

PoolPair& CachingAllocator::pools_of(PoolId id) {
  if (!id) return ordinary_;
  std::unique_ptr<PoolPair>& pools = private_[id];
  if (!pools) pools = std::make_unique<PoolPair>(id);
  return *pools;
}

void CachingAllocator::begin_pool(PoolId pool, StreamFilter filter) {
  std::lock_guard lock(mutex_);
  scopes_.begin(pool, std::move(filter));
}

void CachingAllocator::end_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.end(pool);
}

void CachingAllocator::release_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.release(pool);
}

void CachingAllocator::retain_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.retain(pool);
}

int CachingAllocator::pool_uses(PoolId pool) const {
  std::lock_guard lock(mutex_);
  return scopes_.uses(pool);
}

void CachingAllocator::set_limit(Bytes reserved) {
  std::lock_guard lock(mutex_);
  limit_ = reserved;
}

Statistics CachingAllocator::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

void CachingAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  statistics_.reset_peaks();
}

void CachingAllocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  statistics_.reset_accumulated();
}

std::unique_ptr<Allocator> make_caching(Driver& driver, const Options& options) {
  return std::make_unique<CachingAllocator>(driver, CachingOptions(options));
}

}  // namespace gmlake
