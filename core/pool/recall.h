// Where was this request served the last time? A training program asks for the same things in the same order in every
// step. If each of them gets the place it had, all that follow find the layout they had, and no driver call is left to
// make. A *point* of a program is told by the request, by what the client holds at that moment and by the requests
// before it. The table keeps the place of every point behind the point before it, so that it is fetched long before it
// is needed; whether points are met again tells whether the program repeats itself. Fixed size: the oldest give way. A
// place is a hint, no more: who gets one looks whether it is free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/vocabulary.h"
#include "order/clock.h"

namespace gmlake {

class Recall {
 public:
  // Moves on to the point of this request. Its place there, or 0.
  Address next(Bytes size, Bytes held, Lane lane) {
    const std::uint64_t point = ((size + lane) ^ held * 0xD6E8FEB86659FD93u ^ advance(size)) * 0xC2B2AE3D27D4EB4Fu;
    mark_ = point & ~place_bits;
    std::uint64_t* rows = rows_ = rows_of_next_;
    rows_of_next_ = &table_[(point >> 20) % row_count / 2 * 2];
    __builtin_prefetch(rows_of_next_, 1);
    if (!is_mine(rows[0]) && is_mine(rows[1])) std::swap(rows[0], rows[1]);
    known_ = is_mine(rows[0]);
    unknown_ = known_ ? 0 : unknown_ + 1;
    return known_ ? (rows[0] & place_bits) * unit : 0;
  }

  void note(Address place) {  // of the request under way
    if (!known_) rows_[1] = rows_[0];
    rows_[0] = mark_ | (place / unit & place_bits);
  }

  bool repeats() const { return unknown_ < doubtful; }

 private:
  static constexpr Bytes unit = 512;  // every place is a multiple
  static constexpr std::uint64_t place_bits = (std::uint64_t{1} << 40) - 1;
  static constexpr std::size_t row_count = std::size_t{1} << 15;
  static constexpr std::size_t doubtful = 8;

  static constexpr std::size_t window = 112;  // enough to tell one layer of a model from another
  static constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;
  static constexpr std::uint64_t power(std::size_t exponent) {
    return exponent == 0 ? 1 : factor * power(exponent - 1);
  }

  // A rolling hash of the last requests.
  std::uint64_t advance(Bytes size) {
    Bytes& oldest = requests_[turn_];
    turn_ = turn_ + 1 < window ? turn_ + 1 : 0;
    const std::uint64_t history = history_ * factor + size - oldest * power(window);
    oldest = size;
    return history_ = history;
  }

  // A row holds the upper bits of a point, its mark, and its place. Two are looked at, of which the first was used
  // last.
  bool is_mine(std::uint64_t row) const { return (row & ~place_bits) == mark_; }

  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(row_count);
  std::array<Bytes, window> requests_{};
  std::size_t turn_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t* rows_ = table_.data();  // of the request under way
  std::uint64_t* rows_of_next_ = table_.data();
  std::uint64_t mark_ = 0;
  bool known_ = false;
  std::size_t unknown_ = doubtful;  // points since the last one that was known
};

}  // namespace gmlake
