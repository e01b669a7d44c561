// A ring of the latest events, for snapshots and post-mortems. Off by default; while it is off, a note costs one
// branch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

struct JournalEntry {
  enum class Action : std::uint8_t { alloc, free_requested, free_completed, map, unmap, stitch, oom, trim };
  Action action = Action::alloc;
  Address address = 0;
  Bytes size = 0;
  Stream stream = 0;
  std::int64_t time_us = 0;  // since the epoch
};
std::string_view to_string(JournalEntry::Action action);

class Journal {
 public:
  static constexpr std::size_t longest = std::size_t{1} << 24;

  void start(std::size_t entries);  // forgets what was there; 0 turns it off
  bool on() const { return !ring_.empty(); }

  void note(JournalEntry::Action action, Address address, Bytes size, Stream stream) {
    if (on()) append(action, address, size, stream);
  }

  std::vector<JournalEntry> entries() const;  // oldest first
  std::uint64_t total() const { return total_; }

 private:
  void append(JournalEntry::Action action, Address address, Bytes size, Stream stream);

  std::vector<JournalEntry> ring_;
  std::uint64_t total_ = 0;  // ever noted since start
};

}  // namespace gmlake
