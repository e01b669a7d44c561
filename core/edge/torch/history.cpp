#include "edge/torch/history.h"

#include <mutex>
#include <unordered_map>

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

std::uint64_t gather_for_free() {
  return gathered(Level::all);
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
