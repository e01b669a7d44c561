// What PYTORCH_CUDA_ALLOC_CONF can say to PyTorch's caching allocator, and the rules for sizes that follow from it.
// Names, defaults and limits are PyTorch's, megabytes that are really MiB included.
#pragma once

#include <array>
#include <limits>
#include <span>

#include "base/options.h"
#include "base/units.h"

namespace gmlake {

struct CachingOptions {
  static constexpr Bytes block_step = 512;         // every block is a multiple of this
  static constexpr Bytes small_request = MiB;      // the largest that comes from the small pool
  static constexpr Bytes small_segment = 2 * MiB;  // what the small pool grows by
  static constexpr Bytes own_segment = 10 * MiB;   // from here on a request grows by its own size ...
  static constexpr Bytes segment_step = 2 * MiB;   // ... rounded up to this
  static constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();

  // How blocks of equal size are ordered. PyTorch once took the lowest address; 2.14 takes the block whose segment is
  // oldest.
  enum class Ties : std::uint8_t { address, registration };

  Bytes large_segment = 20 * MiB;             // what the large pool grows by for requests below own_segment
  Bytes max_split = unlimited;                // blocks of at least this size are not split
  Bytes max_non_split_rounding = 20 * MiB;    // how much too large such a block may be for a request
  double garbage_collection_threshold = 0;    // of the limit; 0 is off
  std::array<Bytes, 16> roundup_divisions{};  // by power of two from 1 MiB on; 0 is off
  Ties ties = Ties::registration;

  CachingOptions() = default;
  explicit CachingOptions(const Options& options);  // throws InvalidArgument

  Bytes rounded(Bytes size) const;
  Bytes segment_size(Bytes rounded_size) const;
};

std::span<const OptionRow> caching_option_rows();

}  // namespace gmlake
