// Counters with PyTorch's names and meanings (torch.cuda.memory_stats), plus our own. Updated inline on the hot path;
// nothing here knows how an allocator works.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/vocabulary.h"

namespace gmlake {

// Counters are signed, because they are subtracted from each other.
constexpr std::int64_t signed_bytes(Bytes bytes) {
  return static_cast<std::int64_t>(bytes);
}

struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  // sum of all increases
  std::int64_t before = 0;     // what was there when the sums began

  std::int64_t freed() const { return allocated + before - current; }  // sum of all decreases

  [[gnu::always_inline]] void increase(std::int64_t amount) {
    current += amount;
    allocated += amount;
    if (current > peak) [[unlikely]]
      peak = current;
  }
  void decrease(std::int64_t amount) { current -= amount; }
  void reset_peak() { peak = current; }
  void reset_accumulated() {
    allocated = 0;
    before = current;
  }
};

enum class PoolKind : std::uint8_t { small = 1, large = 2 };

struct StatArray {
  std::array<Stat, 3> by{};  // all, small_pool, large_pool
  [[gnu::always_inline]] void increase(PoolKind pool, std::int64_t amount) {
    by[0].increase(amount);
    by[static_cast<std::size_t>(pool)].increase(amount);
  }
  [[gnu::always_inline]] void decrease(PoolKind pool, std::int64_t amount) {
    by[0].decrease(amount);
    by[static_cast<std::size_t>(pool)].decrease(amount);
  }
  void change(PoolKind pool, std::int64_t amount) {
    if (amount >= 0)
      increase(pool, amount);
    else
      decrease(pool, -amount);
  }
  const Stat& all() const { return by[0]; }
};

struct Statistics {
  // As in PyTorch: counts, then bytes.
  StatArray allocation;       // blocks in the client's hands
  StatArray segment;          // pieces of physical memory held (ours: chunks)
  StatArray active;           // blocks in the client's hands or still used by a stream
  StatArray inactive_split;   // free blocks that cannot be given back
  StatArray allocated_bytes;  // rounded
  StatArray reserved_bytes;
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;                                    // as asked
  std::map<PoolId, StatArray> reserved_bytes_by_private_pools;  // of pools that hold or ever held memory
  Stat oversize_allocations;
  Stat oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
  std::int64_t max_split_size = -1;

  // Ours.
  std::int64_t grows = 0;          // times chunks were created
  std::int64_t stitches = 0;       // runs made of scattered chunks, re-homed or as an sBlock
  std::int64_t rehomed_bytes = 0;  // bytes of chunks that changed their home
  std::int64_t sblock_hits = 0;    // requests served by an sBlock that existed
  std::int64_t mends = 0;          // sBlocks some of whose chunks were replaced
  std::int64_t cuts = 0;           // chunks that were cut in two
  std::int64_t fences = 0;         // times one stream was made to wait for another
  Stat address_bytes;              // addresses reserved
  Stat mapped_bytes;               // bytes of mappings; more than reserved when sBlocks exist
  Stat sblocks;
  std::int64_t last_oom_us = 0;     // when memory ran out for the last time, in microseconds since the epoch; 0: never
  std::int64_t last_oom_bytes = 0;  // what was asked then

  void count_reserved(PoolKind kind, PoolId pool, std::int64_t bytes);  // below zero: given back
  void count_out_of_memory(Bytes asked);
  void reset_peaks();
  void reset_accumulated();
};

}  // namespace gmlake
