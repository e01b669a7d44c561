// A program of a thousand steps that visits every part of an allocator: growth, splitting, stitching, what repeats
// itself, small blocks, streams that use each other's memory and lag behind, a private pool, trim, and memory that runs
// short. Always the same. It says what is asked, not what the answer must be.
#pragma once

#include <vector>

#include "base/vocabulary.h"

namespace gmlake::testing {

struct Step {
  enum class Action { allocate, release, record_stream, hold, finish, begin_pool, end_pool, release_pool, trim };
  Action action;
  std::size_t block = 0;  // allocate, release, record_stream: which
  Bytes size = 0;
  Stream stream = 0;
};

inline constexpr Bytes script_capacity = Bytes{320} << 20;
inline constexpr PoolId script_pool{1, 0};

std::vector<Step> script();

// A shorter one of larger blocks, with as much memory as its first request needs and little more: for chunks that are
// large, and are cut.
inline constexpr Bytes cutting_capacity = Bytes{2560} << 20;
std::vector<Step> cutting_script();

}  // namespace gmlake::testing
