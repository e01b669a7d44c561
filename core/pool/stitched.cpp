#include "pool/stitched.h"

#include <algorithm>
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

void Stitched::activate(SBlock* block, Lane user) {
  block->active = true;
  block->user = user;
  block->uses = 0;
  block->last_use = ++tick_;
  (void)each_home(block, [&](Address at, Bytes size) {
    block->lent.push_back(arena_.take(at, size, Extent::State::lent, user));
    return true;
  });
}

void Stitched::deactivate(SBlock* block, const Clock& clock) {
  for (Extent* extent : block->lent) arena_.give_back(extent, clock);
  block->lent.clear();
  block->active = block->limbo = false;
}

SBlock* Stitched::at(Address address) const {
  auto found = by_address_.find(address);
  return found == by_address_.end() ? nullptr : found->second.get();
}

void Stitched::keep_budget(const SBlock* except) {
  const auto budget =
      static_cast<Bytes>(supply_.policy.address_budget * static_cast<double>(supply_.chunks.reserved()));
  while (mapped_ > budget) {
    SBlock* oldest = nullptr;
    for (auto& [address, block] : by_address_)
      if (!block->active && block.get() != except && (oldest == nullptr || block->last_use < oldest->last_use))
        oldest = block.get();
    if (oldest == nullptr || !drop(oldest)) return;
  }
}

void Stitched::drop_idle() {
  std::vector<SBlock*> idle;
  for (auto& [address, block] : by_address_)
    if (!block->active) idle.push_back(block.get());
  for (SBlock* block : idle)
    if (!drop(block)) return;
}

// The last use of the addresses may still be running, so the mappings retire; the chunks are untouched. When the driver
// cannot even record an event the block stays.
bool Stitched::drop(SBlock* block) {
  Clock clock;
  supply_.fences.everything(clock);
  Fences::Ticket ticket;
  if (!supply_.fences.mark(clock, ticket)) return false;
  retirement_.add(std::move(ticket), {{block->address, block->size}});
  mapped_ -= block->size;
  supply_.statistics.sblocks.decrease(1);
  for (Chunk* chunk : block->chunks) --chunk->aliases;
  auto [entry, end] = by_request_.equal_range(block->serves);
  by_request_.erase(std::find_if(entry, end, [block](const auto& row) { return row.second == block; }));
  by_address_.erase(block->address);
  return true;
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
