// GMLake's figures, segments and annotations in the structures that PyTorch has for them. Nothing is decided here.
#pragma once

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "allocator/allocator.h"
#include "blocks.h"
#include "edge/process.h"
#include "watch/now.h"

namespace gmlake::bridge {

namespace caching = c10::cuda::CUDACachingAllocator;
namespace common = c10::CachingDeviceAllocator;

inline void* as_pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

inline common::Stat as_stat(const Stat& stat) {
  common::Stat result;
  result.current = stat.current;
  result.peak = stat.peak;
  result.allocated = stat.allocated;
  result.freed = stat.freed();
  return result;
}

inline common::StatArray as_stats(const StatArray& stats) {
  return {as_stat(stats.by[0]), as_stat(stats.by[1]), as_stat(stats.by[2])};
}

template <typename DeviceStats>  // PyTorch's, as a parameter: what a version lacks is left out
DeviceStats as_device_stats(const Statistics& statistics) {
  DeviceStats result;
  result.allocation = as_stats(statistics.allocation);
  result.segment = as_stats(statistics.segment);
  result.active = as_stats(statistics.active);
  result.inactive_split = as_stats(statistics.inactive_split);
  result.allocated_bytes = as_stats(statistics.allocated_bytes);
  result.reserved_bytes = as_stats(statistics.reserved_bytes);
  result.active_bytes = as_stats(statistics.active_bytes);
  result.inactive_split_bytes = as_stats(statistics.inactive_split_bytes);
  result.requested_bytes = as_stats(statistics.requested_bytes);
  if constexpr (requires { result.reserved_bytes_by_private_pools; })
    for (const auto& [pool, stats] : statistics.reserved_bytes_by_private_pools)
      result.reserved_bytes_by_private_pools[{pool.capture, pool.user}] = as_stats(stats);
  result.oversize_allocations = as_stat(statistics.oversize_allocations);
  result.oversize_segments = as_stat(statistics.oversize_segments);
  result.num_alloc_retries = statistics.num_alloc_retries;
  result.num_ooms = statistics.num_ooms;
  result.num_sync_all_streams = statistics.num_sync_all_streams;
  result.num_device_alloc = statistics.num_device_alloc;
  result.num_device_free = statistics.num_device_free;
  result.max_split_size = statistics.max_split_size;
  return result;
}

// A run of blocks that is shown as one segment. Memory that serves a stitched block is shown there and not at home.
inline caching::SegmentInfo as_segment(DeviceIndex device, const gmlake::SegmentInfo& whole, Address address,
                                       std::vector<caching::BlockInfo> blocks) {
  caching::SegmentInfo result;
  result.device = device;
  result.address = address;
  result.stream = static_cast<decltype(result.stream)>(as_pointer(whole.stream));
  result.is_large = whole.kind == PoolKind::large;
  result.is_expandable = whole.expandable;
  result.owner_private_pool_id = {whole.pool.capture, whole.pool.user};
  for (const caching::BlockInfo& block : blocks) {
    result.total_size += block.size;
    result.requested_size += block.requested_size;
    if (block.allocated) result.allocated_size += block.size;
    if (block.active) result.active_size += block.size;
  }
  result.blocks = std::move(blocks);
  return result;
}

inline void add_segments(DeviceIndex device, const gmlake::SegmentInfo& whole,
                         std::vector<caching::SegmentInfo>& segments) {
  using State = BlockInfo::State;
  std::vector<caching::BlockInfo> run;
  Address begin = 0;
  bool used = false;
  auto finish = [&] {
    if (!run.empty() && (used || !whole.stitched)) segments.push_back(as_segment(device, whole, begin, std::move(run)));
    run = {};
    used = false;
  };
  for (const BlockInfo& block : whole.blocks) {
    if (block.state == State::lent) {
      finish();
      continue;
    }
    if (run.empty()) begin = block.address;
    caching::BlockInfo shown;
    shown.size = block.size;
    shown.requested_size = block.requested;
    shown.allocated = block.state == State::active_allocated;
    shown.active = block.state != State::inactive;
    used = used || shown.active;
    run.push_back(std::move(shown));
  }
  finish();
}

// The latest of what record_function said while history was recorded, as many as there are events.
using Annotation = decltype(caching::SnapshotInfo::external_annotations)::value_type;

class Annotations {
 public:
  void add(const std::vector<std::pair<std::string, std::string>>& said) {
    const std::size_t most = process_journals();
    Annotation entry(current_device(), {});
    entry.time_.t_ = now_us();
    for (const auto& [name, value] : said) entry.recordUserMetadata(name, value);
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    while (entries_.size() > most) entries_.pop_front();
  }
  std::vector<Annotation> all() {
    std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }
  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  std::mutex mutex_;
  std::deque<Annotation> entries_;
};
inline Annotations& annotations = *new Annotations;

}  // namespace gmlake::bridge
