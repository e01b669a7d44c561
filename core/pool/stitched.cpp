#include "pool/stitched.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "base/error.h"

namespace gmlake {

Stitched::Stitched(Supply& supply, Arena& arena)
    : supply_(supply),
      arena_(arena),
      retirement_(supply.chunks, supply.fences, [this](Address at, Bytes size) { supply_.ranges.free(at, size); }) {}

Stitched::~Stitched() {
  for (auto& [address, block] : by_address_) {
    supply_.chunks.undo(address, block->size);
    supply_.ranges.free(address, block->size);
  }
}

// Calls visit(at, size) for the homes of the chunks, neighbours at once, until it returns false. Did it never?
template <typename Visit>
bool Stitched::each_home(const SBlock* block, Visit visit) {
  const auto& chunks = block->chunks;
  for (std::size_t first = 0; first < chunks.size();) {
    const Address at = chunks[first]->home;
    Address end = at;
    for (; first < chunks.size() && chunks[first]->home == end; ++first) end += chunks[first]->size;
    if (!visit(at, end - at)) return false;
  }
  return true;
}

bool Stitched::idle(const SBlock* block) const {
  return !block->active && each_home(block, [this](Address at, Bytes size) { return arena_.is_free(at, size); });
}

SBlock* Stitched::find(Bytes request) const {
  for (auto [entry, end] = by_request_.equal_range(request); entry != end; ++entry)
    if (idle(entry->second)) return entry->second;
  return nullptr;
}

bool Stitched::usable(const SBlock* block, Clock& clock) const {
  if (!idle(block)) return false;
  return each_home(block, [&](Address at, Bytes size) {
    arena_.merge_clocks(at, size, clock);
    return true;
  });
}

SBlock* Stitched::make(Bytes request, std::vector<Chunk*> chunks) {
  Bytes size = 0;
  for (const Chunk* chunk : chunks) size += chunk->size;
  const Address address = supply_.ranges.reserve(size);
  if (address == 0) return nullptr;
  if (!supply_.chunks.map_run(address, chunks)) {
    supply_.ranges.free(address, size);
    return nullptr;
  }
  auto block = std::make_unique<SBlock>();
  block->address = address;
  block->size = size;
  block->serves = request;
  block->chunks = std::move(chunks);
  for (Chunk* chunk : block->chunks) ++chunk->aliases;
  mapped_ += size;
  supply_.statistics.sblocks.increase(1);
  by_request_.emplace(request, block.get());
  return by_address_.emplace(address, std::move(block)).first->second.get();
}

bool Stitched::mend(SBlock* block, std::vector<Chunk*> others) {
  std::vector<Patch> patches = in_use(block);
  Bytes needed = 0;
  for (const Patch& patch : patches) needed += patch.size;
  if (needed == 0 || needed > block->size / 2) return false;
  std::vector<Chunk*> own = block->chunks;
  std::ranges::sort(own);
  std::erase_if(others, [&](Chunk* other) { return std::ranges::binary_search(own, other); });
  // The largest first: what is missing in the end takes the smallest.
  std::ranges::stable_sort(others, std::ranges::greater{}, &Chunk::size);
  for (Patch& patch : patches) {
    Bytes need = patch.size;
    std::erase_if(others, [&](Chunk* other) {
      if (other->size > need) return false;
      need -= other->size;
      patch.others.push_back(other);
      return true;
    });
    if (need > 0) return false;
  }
  // From the last on, so that the places of the others hold.
  return std::ranges::all_of(patches.rbegin(), patches.rend(),
                             [&](const Patch& patch) { return replace(block, patch); });
}

std::vector<Stitched::Patch> Stitched::in_use(const SBlock* block) const {
  std::vector<Patch> patches;
  Address at = block->address;
  for (std::size_t number = 0; number < block->chunks.size(); at += block->chunks[number++]->size) {
    const Chunk* chunk = block->chunks[number];
    if (arena_.is_free(chunk->home, chunk->size)) continue;
    if (patches.empty() || patches.back().first + patches.back().count != number)
      patches.push_back({.first = number, .count = 0, .at = at, .size = 0, .others = {}});
    ++patches.back().count;
    patches.back().size += chunk->size;
  }
  return patches;
}

// A block that was left with a hole cannot be used again: it goes.
bool Stitched::replace(SBlock* block, const Patch& patch) {
  if (!supply_.chunks.unmap(patch.at, patch.size)) return false;
  if (!supply_.chunks.map_run(patch.at, patch.others)) {
    const Address end = patch.at + patch.size;
    const Address block_end = block->address + block->size;
    if (patch.at > block->address) supply_.chunks.undo(block->address, patch.at - block->address);
    if (end < block_end) supply_.chunks.undo(end, block_end - end);
    supply_.ranges.free(block->address, block->size);
    forget(block);
    return false;
  }
  const auto first = block->chunks.begin() + static_cast<std::ptrdiff_t>(patch.first);
  const auto last = first + static_cast<std::ptrdiff_t>(patch.count);
  for (Chunk* gone : std::span(first, last)) --gone->aliases;
  for (Chunk* other : patch.others) ++other->aliases;
  block->chunks.insert(block->chunks.erase(first, last), patch.others.begin(), patch.others.end());
  return true;
}

void Stitched::activate(SBlock* block, Lane user, std::uint64_t request) {
  block->active = true;
  block->user = user;
  block->uses = 0;
  block->last_request = request;
  (void)each_home(block, [&](Address at, Bytes size) {
    block->lent.push_back(arena_.take(at, size, Extent::State::lent, user));
    return true;
  });
}

void Stitched::deactivate(SBlock* block, const Clock& clock) {
  block->clock.merge(clock);
  for (Extent* extent : block->lent) arena_.give_back(extent, clock);
  block->lent.clear();
  block->active = block->limbo = false;
}

SBlock* Stitched::at(Address address) const {
  auto found = by_address_.find(address);
  return found == by_address_.end() ? nullptr : found->second.get();
}

void Stitched::keep_budget(const SBlock* except) {
  const Bytes budget = bytes_of(supply_.policy.address_budget * static_cast<double>(supply_.chunks.reserved()));
  while (mapped_ > budget) {
    SBlock* oldest = nullptr;
    for (auto& [address, block] : by_address_)
      if (!block->active && block.get() != except && (oldest == nullptr || block->last_request < oldest->last_request))
        oldest = block.get();
    if (oldest == nullptr || !drop({&oldest, 1})) return;
  }
}

void Stitched::drop_idle() {
  std::vector<SBlock*> idle;
  for (auto& [address, block] : by_address_)
    if (!block->active) idle.push_back(block.get());
  (void)drop(idle);
}

// The last use of the addresses may still be running, so the mappings retire; the chunks are untouched. When the driver
// cannot even record an event the blocks stay.
bool Stitched::drop(std::span<SBlock* const> blocks) {
  Fences::Ticket ticket;
  if (blocks.empty() || !supply_.fences.mark_everything(ticket)) return false;
  std::vector<Span> spans;
  for (const SBlock* block : blocks) {
    spans.push_back({block->address, block->size});
    forget(block);
  }
  retirement_.add(std::move(ticket), std::move(spans));
  return true;
}

void Stitched::forget(const SBlock* block) {
  mapped_ -= block->size;
  supply_.statistics.sblocks.decrease(1);
  for (Chunk* chunk : block->chunks) --chunk->aliases;
  auto [entry, end] = by_request_.equal_range(block->serves);
  by_request_.erase(std::find_if(entry, end, [block](const auto& row) { return row.second == block; }));
  by_address_.erase(block->address);
}

void Stitched::check() const {
  Bytes mapped = 0;
  for (const auto& [address, block] : by_address_) {
    auto fail = [at = address](const std::string& what) {
      throw BrokenInvariant("sBlock at address " + std::to_string(at) + ": " + what);
    };
    Bytes size = 0;
    for (const Chunk* chunk : block->chunks) {
      size += chunk->size;
      if (chunk->home == 0 || arena_.chunk_at(chunk->home) != chunk) fail("a chunk has no home");
    }
    if (size != block->size || size < block->serves) fail("its chunks do not add up to its size");
    Bytes lent = 0;
    for (const Extent* extent : block->lent)
      for (const Extent* part = extent;; part = part->next) {
        if (part->state != Extent::State::lent) fail("a chunk in use is not marked as lent at home");
        lent += part->size;
        if (!part->joined) break;
      }
    if (lent != (block->active ? size : 0)) fail("what is lent at home differs from what is in use");
    mapped += size;
  }
  if (mapped != mapped_) throw BrokenInvariant("the mappings of sBlocks are miscounted");
}

}  // namespace gmlake
