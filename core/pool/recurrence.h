// Which sizes had to be stitched before? One that comes again is worth an sBlock, which will be there the next time
// too; one that does not (a sequence length that nobody has had yet) is not. Fixed size: the oldest are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class Recurrence {
 public:
  bool note(Bytes size) {  // tells whether it was known
    const std::uint64_t mark = size * 0x9E3779B97F4A7C15u;
    auto& bucket = buckets_[mark >> (64 - bits)];
    if (std::ranges::find(bucket, mark) != bucket.end()) return true;
    std::ranges::copy_backward(bucket.begin(), bucket.end() - 1, bucket.end());
    bucket.front() = mark;
    return false;
  }

 private:
  static constexpr int bits = 8;
  using Bucket = std::array<std::uint64_t, 8>;  // the newest first
  std::vector<Bucket> buckets_ = std::vector<Bucket>(std::size_t{1} << bits);
};

}  // namespace gmlake
