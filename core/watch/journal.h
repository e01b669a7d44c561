// A ring of the latest events, for snapshots and post-mortems. Off by default; while it is off, a note costs one
// branch. It grows as it fills, so that a long one costs nothing before it is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

struct JournalEntry {
  enum class Action : std::uint8_t {
    alloc,
    free_requested,
    free_completed,
    map,
    unmap,
    stitch,
    oom,
    annotate,
    snapshot,
    trim
  };
  Action action = Action::alloc;
  Address address = 0;  // oom: what the device had left
  Bytes size = 0;
  Stream stream = 0;
  PoolId pool;
  std::int64_t time_us = 0;             // since the epoch
  std::uint64_t context = 0;            // what the thread was doing, in the client's own numbers; 0: unknown
  const std::string* remark = nullptr;  // of the thread, if it made one
};
std::string_view to_string(JournalEntry::Action action);

// Whoever calls an allocator may say what it is doing: what is noted on this thread meanwhile carries the number.
class JournalContext {
 public:
  explicit JournalContext(std::uint64_t context) : before_(current_) { current_ = context; }
  JournalContext(const JournalContext&) = delete;
  JournalContext& operator=(const JournalContext&) = delete;
  ~JournalContext() { current_ = before_; }

  static std::uint64_t current() { return current_; }

 private:
  static thread_local std::uint64_t current_;
  std::uint64_t before_;
};

// What a thread says of all that is noted on it, until it says something else; "" takes it back. Each text is kept for
// ever, once.
void set_remark(const std::string& text);
const std::string& remark();

class Journal {
 public:
  static constexpr std::size_t longest = std::size_t{1} << 30;

  void start(std::size_t entries);   // forgets what was there; 0 turns it off
  void resize(std::size_t entries);  // keeps the latest of what was there
  bool on() const { return length_ > 0; }

  void note(JournalEntry::Action action, Address address, Bytes size, Stream stream, PoolId pool = {}) {
    if (on()) append(action, address, size, stream, pool);
  }

  // Kinds of events that no journal of this process notes, as bits.
  static void skip(std::uint32_t actions);

  std::vector<JournalEntry> entries() const;  // oldest first

 private:
  void append(JournalEntry::Action action, Address address, Bytes size, Stream stream, PoolId pool);

  static std::atomic<std::uint32_t> skipped_;

  std::size_t length_ = 0;          // of the ring when it is full; 0: off
  std::vector<JournalEntry> ring_;  // as long as it had to be so far
  std::uint64_t total_ = 0;         // ever noted since start
};

}  // namespace gmlake
