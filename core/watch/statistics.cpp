#include "watch/statistics.h"

namespace gmlake {
namespace {

template <typename Visit>
void each_stat(Statistics& s, Visit visit) {
  for (StatArray* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                           &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
    for (Stat& stat : array->by) visit(stat);
  for (Stat* stat : {&s.oversize_allocations, &s.oversize_segments, &s.address_bytes, &s.mapped_bytes, &s.sblocks})
    visit(*stat);
}

}  // namespace

void Statistics::reset_peaks() {
  each_stat(*this, [](Stat& stat) { stat.reset_peak(); });
}

void Statistics::reset_accumulated() {
  each_stat(*this, [](Stat& stat) { stat.reset_accumulated(); });
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
  grows = stitches = rehomed_bytes = sblock_hits = fences = 0;
}

}  // namespace gmlake
