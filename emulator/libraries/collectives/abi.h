// The part of NCCL's binary interface that we implement, declared by us: result codes, data types, reductions, the
// communicator's configuration. The numbers are NCCL's own (version 2.30); nothing here comes from its headers.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace gmlake::collectives {

inline constexpr int version = 23007;

enum class [[nodiscard]] Result : int {
  success = 0,
  device_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class Type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
inline constexpr int types = 12;

// Built-in reductions; numbers from here on name operators made by ncclRedOpCreatePreMulSum.
inline constexpr int built_in_reductions = 5;

enum class Residence : int { device = 0, host = 1 };

struct UniqueId {
  char bytes[128];
};

// Later versions only append fields, so that the head is enough to tell a configuration from garbage.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
inline constexpr unsigned config_magic = 0xcafebeef;

inline constexpr int no_colour = -1;

// What ncclCommMemStats is asked for.
enum class MemoryStatistic : int { suspendable = 0, suspended = 1, persistent = 2, total = 3 };

}  // namespace gmlake::collectives
