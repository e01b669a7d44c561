#include "baselines/native.h"

#include <algorithm>

#include "base/units.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

constexpr Bytes step = 512;

PoolKind kind_of(Bytes size) {
  return size <= MiB ? PoolKind::small : PoolKind::large;
}

// A block is a segment, is allocated and is active, all at once.
template <typename Apply>
void for_each_stat(Statistics& statistics, Bytes size, Bytes requested, Apply apply) {
  for (StatArray* stat : {&statistics.allocation, &statistics.segment, &statistics.active}) apply(*stat, 1);
  for (StatArray* stat : {&statistics.allocated_bytes, &statistics.reserved_bytes, &statistics.active_bytes})
    apply(*stat, signed_bytes(size));
  apply(statistics.requested_bytes, signed_bytes(requested));
}

}  // namespace

NativeAllocator::~NativeAllocator() {
  for (const auto& [address, block] : blocks_) (void)driver_.free(address);
}

Address NativeAllocator::allocate(Bytes size, Stream stream) {
  if (size == 0) return 0;
  check_size(size);
  std::lock_guard lock(mutex_);
  const Block block{round_up(size, step), size, stream, scopes_.match(stream)};
  const Bytes reserved = static_cast<Bytes>(statistics_.reserved_bytes.all().current);
  Address address = 0;
  const Status status =
      limit_ && reserved + block.size > *limit_ ? Status::out_of_memory : driver_.allocate(block.size, address);
  if (status == Status::out_of_memory) {
    ++statistics_.num_ooms;
    throw_out_of_memory(driver_, size, stream, statistics_, limit_, 0);
  }
  expect_success(status, "allocate");
  blocks_.emplace(address, block);
  ++statistics_.num_device_alloc;
  for_each_stat(statistics_, block.size, size,
                [&](StatArray& stat, std::int64_t n) { stat.increase(kind_of(block.size), n); });
  return address;
}

void NativeAllocator::release(Address address) {
  if (address == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) throw_unknown_address(address);
  expect_success(driver_.free(address), "free");
  const Block block = found->second;
  blocks_.erase(found);
  ++statistics_.num_device_free;
  for_each_stat(statistics_, block.size, block.requested,
                [&](StatArray& stat, std::int64_t n) { stat.decrease(kind_of(block.size), n); });
}

void NativeAllocator::record_stream(Address address, Stream) {
  std::lock_guard lock(mutex_);
  if (address != 0 && !blocks_.contains(address)) throw_unknown_address(address);
}

void NativeAllocator::begin_pool(PoolId pool, StreamFilter filter) {
  std::lock_guard lock(mutex_);
  scopes_.begin(pool, std::move(filter));
}

void NativeAllocator::end_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.end(pool);
}

void NativeAllocator::release_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.release(pool);
}

void NativeAllocator::set_limit(Bytes reserved) {
  std::lock_guard lock(mutex_);
  limit_ = reserved;
}

Statistics NativeAllocator::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

void NativeAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  statistics_.reset_peaks();
}

void NativeAllocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  statistics_.reset_accumulated();
}

std::vector<SegmentInfo> NativeAllocator::segments() const {
  std::lock_guard lock(mutex_);
  std::vector<SegmentInfo> result;
  for (const auto& [address, block] : blocks_) {
    const BlockInfo info{address, block.size, block.requested, BlockInfo::State::active_allocated};
    result.push_back({address, block.size, block.stream, kind_of(block.size), block.pool, false, false, {info}});
  }
  std::ranges::sort(result, {}, &SegmentInfo::address);
  return result;
}

void NativeAllocator::check() const {
  std::lock_guard lock(mutex_);
  Statistics counted;
  for (const auto& [address, block] : blocks_)
    for_each_stat(counted, block.size, block.requested,
                  [&](StatArray& stat, std::int64_t n) { stat.increase(kind_of(block.size), n); });
  expect_same(counted, statistics_, "native");
}

std::unique_ptr<Allocator> make_native(Driver& driver, const Options&) {
  return std::make_unique<NativeAllocator>(driver);
}

}  // namespace gmlake
