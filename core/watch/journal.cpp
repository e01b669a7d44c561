#include "watch/journal.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "watch/now.h"

namespace gmlake {

thread_local std::uint64_t JournalContext::current_ = 0;

std::string_view to_string(JournalEntry::Action action) {
  static constexpr std::array<std::string_view, 10> names{
      "alloc", "free_requested", "free_completed", "map", "unmap", "stitch", "oom", "annotate", "snapshot", "trim"};
  return names[static_cast<std::size_t>(action)];
}

namespace {
thread_local const std::string* current_remark = nullptr;
}

void set_remark(const std::string& text) {
  static std::mutex mutex;
  static auto* const texts = new std::unordered_set<std::string>;  // journals are written until the end of the process
  std::lock_guard lock(mutex);
  current_remark = text.empty() ? nullptr : &*texts->insert(text).first;
}

const std::string& remark() {
  static const auto* const none = new std::string;
  return current_remark == nullptr ? *none : *current_remark;
}

std::atomic<std::uint32_t> Journal::skipped_ = 0;

void Journal::skip(std::uint32_t actions) {
  skipped_ = actions;
}

void Journal::start(std::size_t entries) {
  if (entries > longest)
    throw InvalidArgument("a journal of " + std::to_string(entries) + " entries is too long; expected at most " +
                          std::to_string(longest));
  ring_.clear();
  ring_.shrink_to_fit();
  length_ = entries;
  total_ = 0;
}

void Journal::resize(std::size_t entries) {
  std::vector<JournalEntry> kept = this->entries();
  start(entries);
  if (kept.size() > entries) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(entries));
  total_ = kept.size();
  ring_ = std::move(kept);
}

void Journal::append(JournalEntry::Action action, Address address, Bytes size, Stream stream, PoolId pool) {
  if ((skipped_.load(std::memory_order_relaxed) >> static_cast<unsigned>(action) & 1) != 0) return;
  const JournalEntry entry{action, address, size, stream, pool, now_us(), JournalContext::current(), current_remark};
  if (ring_.size() < length_)
    ring_.push_back(entry);
  else
    ring_[total_ % length_] = entry;
  ++total_;
}

std::vector<JournalEntry> Journal::entries() const {
  std::vector<JournalEntry> result;
  result.reserve(ring_.size());
  for (std::uint64_t i = total_ - ring_.size(); i < total_; ++i) result.push_back(ring_[i % length_]);
  return result;
}

}  // namespace gmlake
