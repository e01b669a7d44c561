#include "watch/journal.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"

namespace gmlake {

std::string_view to_string(JournalEntry::Action action) {
  static constexpr std::array<std::string_view, 8> names{
      "alloc", "free_requested", "free_completed", "map", "unmap", "stitch", "oom", "trim"};
  return names[static_cast<std::size_t>(action)];
}

void Journal::start(std::size_t entries) {
  if (entries > longest)
    throw InvalidArgument("a journal of " + std::to_string(entries) + " entries is too long; expected at most " +
                          std::to_string(longest));
  ring_.assign(entries, {});
  ring_.shrink_to_fit();
  total_ = 0;
}

void Journal::append(JournalEntry::Action action, Address address, Bytes size, Stream stream) {
  using namespace std::chrono;
  const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  ring_[total_++ % ring_.size()] = {action, address, size, stream, now};
}

std::vector<JournalEntry> Journal::entries() const {
  std::vector<JournalEntry> result;
  const std::uint64_t kept = std::min<std::uint64_t>(total_, ring_.size());
  for (std::uint64_t i = total_ - kept; i < total_; ++i) result.push_back(ring_[i % ring_.size()]);
  return result;
}

}  // namespace gmlake
