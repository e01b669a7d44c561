// Which sizes had to be stitched before? One that comes again is worth an sBlock, which will be there the next time too;
// one that does not (a sequence length that nobody has had yet) is not. Fixed size: the oldest are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class Recurrence {
 public:
  // Notes the size and tells whether it was known.
  bool note(Bytes size) {
    auto& bucket = buckets_[size * 0x9E3779B97F4A7C15u >> (64 - bits)];
    if (std::ranges::find(bucket, size) != bucket.end()) return true;
    std::ranges::copy_backward(bucket.begin(), bucket.end() - 1, bucket.end());
    bucket.front() = size;
    return false;
  }

 private:
  static constexpr int bits = 10;
  using Bucket = std::array<Bytes, 8>;  // the newest first
  std::vector<Bucket> buckets_ = std::vector<Bucket>(std::size_t{1} << bits);
};

}  // namespace gmlake
