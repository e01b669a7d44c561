#include "edge/binding/statistics.h"

namespace nb = nanobind;

namespace gmlake {
namespace {

nb::dict as_dict(const Stat& stat) {
  nb::dict result;
  result["current"] = stat.current;
  result["peak"] = stat.peak;
  result["allocated"] = stat.allocated;
  result["freed"] = stat.freed();
  return result;
}

nb::dict as_dict(const StatArray& array) {
  nb::dict result;
  result["all"] = as_dict(array.by[0]);
  result["small_pool"] = as_dict(array.by[static_cast<std::size_t>(PoolKind::small)]);
  result["large_pool"] = as_dict(array.by[static_cast<std::size_t>(PoolKind::large)]);
  return result;
}

nb::dict own(const Statistics& s) {
  nb::dict result;
  result["grows"] = s.grows;
  result["stitches"] = s.stitches;
  result["rehomed_bytes"] = s.rehomed_bytes;
  result["sblock_hits"] = s.sblock_hits;
  result["mends"] = s.mends;
  result["cuts"] = s.cuts;
  result["fences"] = s.fences;
  result["address_bytes"] = as_dict(s.address_bytes);
  result["mapped_bytes"] = as_dict(s.mapped_bytes);
  result["sblocks"] = as_dict(s.sblocks);
  return result;
}

}  // namespace

nb::dict as_dict(const Statistics& s) {
  nb::dict result;
  result["allocation"] = as_dict(s.allocation);
  result["segment"] = as_dict(s.segment);
  result["active"] = as_dict(s.active);
  result["inactive_split"] = as_dict(s.inactive_split);
  result["allocated_bytes"] = as_dict(s.allocated_bytes);
  result["reserved_bytes"] = as_dict(s.reserved_bytes);
  result["active_bytes"] = as_dict(s.active_bytes);
  result["inactive_split_bytes"] = as_dict(s.inactive_split_bytes);
  result["requested_bytes"] = as_dict(s.requested_bytes);
  nb::dict by_pool;
  for (const auto& [pool, array] : s.reserved_bytes_by_private_pools)
    by_pool[nb::make_tuple(pool.capture, pool.user)] = as_dict(array);
  result["reserved_bytes_by_private_pools"] = by_pool;
  result["oversize_allocations"] = as_dict(s.oversize_allocations);
  result["oversize_segments"] = as_dict(s.oversize_segments);
  result["num_alloc_retries"] = s.num_alloc_retries;
  result["num_ooms"] = s.num_ooms;
  result["num_oom_rejections"] = 0;  // nothing is refused before the driver was asked
  result["num_sync_all_streams"] = s.num_sync_all_streams;
  result["num_device_alloc"] = s.num_device_alloc;
  result["num_device_free"] = s.num_device_free;
  result["max_split_size"] = s.max_split_size;
  result["gmlake"] = own(s);
  return result;
}

}  // namespace gmlake
