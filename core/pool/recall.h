// Where was this request served the last time? A training program asks for the same things in the same order in every
// step. If each of them gets the place it had, all that follow find the layout they had, and no driver call is left to
// make. Requests and their places are kept in a log, and the program is followed in it like a thread: behind a request
// that was met again comes the next of the log. Where the thread breaks, it is found again by the *point* of the
// program, told by the request, by what the client holds at that moment and by the requests before. While it lasts,
// what the client holds does not matter: programs that release in another order every time are followed, too. The log
// has an end: the oldest give way. A place is a hint, no more: who gets one looks whether it is free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "order/clock.h"

namespace gmlake {

class Recall {
 public:
  // Moves on to the point of this request. Its place there, or 0.
  Address next(Bytes size, Bytes held, Lane lane) {
    const std::uint64_t request = (size + lane) * 0x9E3779B97F4A7C15u;
    history_ = (history_ << 1) + request;  // which forgets it after 64 others
    const std::uint64_t point = (history_ ^ held * 0xD6E8FEB86659FD93u) * 0xC2B2AE3D27D4EB4Fu;
    std::uint64_t& row = *row_;
    row_ = &table_[point >> (64 - row_bits)];
    __builtin_prefetch(row_, 1);
    if (thread_ != none && is(entry(thread_ + 1), request))
      ++thread_;
    else
      thread_ = find(row, point << row_bits, request);
    if ((++now_ & mask_) == 0) [[unlikely]]
      make_room();
    entry(now_) = request & ~low_bits;
    if (now_ % landmark == 0) row = (point << row_bits & ~low_bits) | (now_ & low_bits);
    if (thread_ != none) {
      period_ = std::max(now_ - thread_, shortest_step);
      met_ = std::min(met_ + 1, period_);
    } else if (met_ > 0 && --met_ == 0) {
      ++changes_;
    }
    return place();
  }
  Address place() { return thread_ != none ? (entry(thread_) & low_bits) * unit : 0; }  // the same once more
  void note(Address place) { entry(now_) |= place / unit & low_bits; }                  // of the request under way

  using Number = std::uint64_t;  // of a request, counted from 1
  static constexpr Number none = 0;
  Number now() const { return now_; }          // the request under way
  Number met() const { return thread_; }       // the one in an earlier step that it repeats
  Number step() const { return period_; }      // how many requests a step has, as far as is known
  Number changes() const { return changes_; }  // times that nothing was met any more, for as long as before
  // Was a good part of a step met again by now? How long a step is, is how far back it was met. A part that is the same
  // in every step, as an optimizer's, does not make a program that repeats itself, nor does a loop within a step.
  bool repeats() const { return met_ >= std::max(period_ / 4, shortest_step); }

 private:
  static constexpr std::size_t longest_log = std::size_t{1} << 16;
  static constexpr int row_bits = 14;
  static constexpr Number landmark = 4;  // so many requests apart are the points by which a thread is found
  static constexpr Number shortest_step = 32;
  // An entry of the log is the upper bits of a request and its place, a row of the table those of a point and its
  // number.
  static constexpr std::uint64_t low_bits = (std::uint64_t{1} << 40) - 1;

  static bool is(std::uint64_t word, std::uint64_t what) { return ((word ^ what) & ~low_bits) == 0; }
  std::uint64_t& entry(Number number) { return log_[number & mask_]; }

  Number find(std::uint64_t row, std::uint64_t point, std::uint64_t request) {
    const Number number = row & low_bits;
    const bool known = number != none && is(row, point) && now_ - number < mask_;
    return known && is(entry(number), request) ? number : none;
  }

  [[gnu::noinline]] void make_room() {
    if (log_.size() == longest_log) return;
    log_.resize(2 * log_.size());
    mask_ = log_.size() - 1;
  }

  std::vector<std::uint64_t> log_ = std::vector<std::uint64_t>(1024);
  std::uint64_t mask_ = log_.size() - 1;
  // The landmarks, each in the row of the point before it: so it is fetched long before it is needed.
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(std::size_t{1} << row_bits);
  std::uint64_t* row_ = table_.data();  // of the request under way
  Number now_ = 0;
  Number thread_ = none;
  std::uint64_t history_ = 0;
  Number period_ = 0;  // requests since the one that the last was met as, and no fewer than the shortest step has
  Number changes_ = 0;
  Number met_ = 0;  // requests, of a period at most, less those that were not
};

}  // namespace gmlake
