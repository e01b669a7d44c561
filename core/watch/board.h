// A few pages of memory that other processes of the same user may look at, for `gmlake top`. An object that is made on
// a board keeps its counters there like anywhere else: showing them costs nothing, because nobody copies them. The
// board only says where they are.
//
// It is a memfd (no file, no name that could be taken, gone with the process), sealed against shrinking, found by
// others through /proc/PID/fd. Counters are read while they change: each is whole, but two need not be of the same
// moment. Where no board can be had, objects live in ordinary memory and nobody sees them.
//
// The layout, little-endian: magic[8], then u32 size, u32 gauges, i64 process, u32 device, u32 unused, u64 bytes of the
// device, i64 microseconds since the epoch; then for every gauge name[16] and four u32 offsets: two counters (i64) to
// be added, two to be subtracted, 0 for none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/vocabulary.h"

namespace gmlake {

struct Gauge {  // a figure: the sum of some counters less that of others
  std::string_view name;
  std::array<const std::int64_t*, 2> plus{};
  std::array<const std::int64_t*, 2> minus{};
};

class Board {
 public:
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // What is made on this thread while one lives goes on the board, if its class has itself placed.
  class Scope {
   public:
    explicit Scope(Board& board);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();
  };

  // For the operators new and delete of a class.
  static void* place(std::size_t size);
  static void give_back(void* at, std::size_t size) noexcept;

  // From now on others can read it. Gauges whose counters are not on the board are left out.
  void show(int device, Bytes capacity, std::span<const Gauge> gauges);

  // In a child after a fork: what was shared with the parent becomes a copy of its own, so that nobody sees it and the
  // parent's counters stay its own.
  void detach() noexcept;

 private:
  void* take(std::size_t size);
  bool holds(const void* at) const;

  static thread_local Board* current_;

  std::byte* base_ = nullptr;  // never unmapped: whoever lives here is never destroyed
  std::size_t size_ = 0;
  int file_ = -1;
};

}  // namespace gmlake
