#include "edge/torch/history.h"

#include <mutex>
#include <string>
#include <unordered_map>

#include "edge/process.h"

namespace gmlake::history {

std::atomic<bool> watching = false;

namespace {

std::atomic<Gather> gather = nullptr;
std::atomic<Level> level = Level::none;

// Never destroyed: memory is freed until the very end of the process.
struct Blocks {
  std::mutex mutex;
  std::unordered_map<Address, std::uint64_t> contexts;
};
Blocks& blocks() {
  static auto* const only = new Blocks;
  return *only;
}

std::uint64_t gathered(Level from) {
  const Gather current = gather;
  return current != nullptr && level.load() >= from ? current() : 0;
}

}  // namespace

void start(Gather wanted, Level wanted_level) {
  level = wanted == nullptr ? Level::none : wanted_level;
  gather = wanted_level == Level::none ? nullptr : wanted;
  std::lock_guard lock(blocks().mutex);
  watching = level != Level::none || !blocks().contexts.empty();
}

std::uint64_t gather_for_allocation() {
  return gathered(Level::state);
}

std::uint64_t gather_for_free(Address block) {
  const std::uint64_t own = gathered(Level::all);
  return own != 0 ? own : told_to_journal(of_block(block));
}

std::uint64_t told_to_journal(std::uint64_t context) {
  return level.load() >= Level::alloc ? context : 0;
}

void remember(Address block, std::uint64_t context) {
  if (block == 0 || context == 0) return;
  std::lock_guard lock(blocks().mutex);
  blocks().contexts.insert_or_assign(block, context);
}

void forget(Address block) {
  std::lock_guard lock(blocks().mutex);
  blocks().contexts.erase(block);
  if (blocks().contexts.empty() && level == Level::none) watching = false;
}

void annotate(Address block, const std::string& text) {
  int device = 0;
  Allocator* const allocator = process_allocator_of(block, device);
  if (allocator == nullptr || process_journals() == 0) return;
  const JournalContext told(told_to_journal(gather_for_allocation()));
  const std::string before = remark();
  set_remark(text);
  allocator->annotate(block);
  set_remark(before);
}

std::uint64_t of_block(Address block) {
  std::lock_guard lock(blocks().mutex);
  const auto found = blocks().contexts.find(block);
  return found == blocks().contexts.end() ? 0 : found->second;
}

std::vector<std::pair<Address, std::uint64_t>> of_all_blocks() {
  std::lock_guard lock(blocks().mutex);
  return {blocks().contexts.begin(), blocks().contexts.end()};
}

}  // namespace gmlake::history
