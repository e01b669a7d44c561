// What had to be stitched before? A size that comes again is worth an sBlock, which will be there the next time too;
// one that does not (a sequence length that nobody has had yet) is not. And the same size at the same level of active
// memory is the same point of an earlier step: the program repeats itself. Fixed size: the oldest are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class Recurrence {
 public:
  // Each notes its subject and tells whether it was known.
  bool size(Bytes size) { return note(size * 0x9E3779B97F4A7C15u); }
  bool point(Bytes size, Bytes active) { return note((size ^ active * 0x9E3779B97F4A7C15u) * 0xC2B2AE3D27D4EB4Fu); }

 private:
  bool note(std::uint64_t mark) {
    auto& bucket = buckets_[mark >> (64 - bits)];
    if (std::ranges::find(bucket, mark) != bucket.end()) return true;
    std::ranges::copy_backward(bucket.begin(), bucket.end() - 1, bucket.end());
    bucket.front() = mark;
    return false;
  }

  static constexpr int bits = 10;
  using Bucket = std::array<std::uint64_t, 8>;  // the newest first
  std::vector<Bucket> buckets_ = std::vector<Bucket>(std::size_t{1} << bits);
};

}  // namespace gmlake
