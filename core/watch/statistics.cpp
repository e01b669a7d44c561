#include "watch/statistics.h"

#include "watch/now.h"

namespace gmlake {
namespace {

template <typename Visit>
void each_stat(Statistics& s, Visit visit) {
  for (StatArray* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                           &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
    for (Stat& stat : array->by) visit(stat);
  for (auto& [pool, array] : s.reserved_bytes_by_private_pools)
    for (Stat& stat : array.by) visit(stat);
  for (Stat* stat : {&s.oversize_allocations, &s.oversize_segments, &s.address_bytes, &s.mapped_bytes, &s.sblocks})
    visit(*stat);
}

}  // namespace

void Statistics::count_reserved(PoolKind kind, PoolId pool, std::int64_t bytes) {
  reserved_bytes.change(kind, bytes);
  if (!pool) return;
  if (bytes >= 0) reserved_bytes_by_private_pools.try_emplace(pool);
  // The driver may take the last memory of a pool back only after the pool has gone.
  if (auto own = reserved_bytes_by_private_pools.find(pool); own != reserved_bytes_by_private_pools.end())
    own->second.change(kind, bytes);
}

void Statistics::count_out_of_memory(Bytes asked) {
  ++num_ooms;
  last_oom_us = now_us();
  last_oom_bytes = signed_bytes(asked);
}

void Statistics::reset_peaks() {
  each_stat(*this, [](Stat& stat) { stat.reset_peak(); });
}

void Statistics::reset_accumulated() {
  each_stat(*this, [](Stat& stat) { stat.reset_accumulated(); });
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
  grows = stitches = rehomed_bytes = sblock_hits = mends = cuts = fences = 0;
}

}  // namespace gmlake
