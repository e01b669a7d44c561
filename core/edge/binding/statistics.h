// Statistics as the nested dictionary that torch._C._cuda_memoryStats returns, with our own counters under "gmlake".
#pragma once

#include <nanobind/nanobind.h>

#include "watch/statistics.h"

namespace gmlake {

nanobind::dict as_dict(const Statistics& statistics);

}  // namespace gmlake
