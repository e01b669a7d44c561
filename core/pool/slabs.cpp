#include "pool/slabs.h"

#include <algorithm>

#include "base/error.h"

namespace gmlake {

Slabs::~Slabs() {
  for (Page& page : pages_) {
    if (page.chunk == nullptr) continue;
    supply_.chunks.undo(page.at, page_size);
    supply_.chunks.destroy(page.chunk, pool_);
  }
}

Address Slabs::take(Stream stream) {
  const Lane lane = supply_.fences.lane(stream);
  auto settled = [&](std::size_t spare) { return supply_.fences.settled(pages_[spare].clock, lane); };
  auto spare = std::ranges::find_if(spares_, settled);
  if (spare == spares_.end() && shared()) spare = spares_.begin();
  if (spare != spares_.end() && supply_.fences.wait(pages_[*spare].clock, stream)) {
    Page& page = pages_[*spare];
    spares_.erase(spare);
    page.used = true;
    return page.at;
  }

  const bool reuse = !vacant_.empty();
  const std::size_t place = reuse ? vacant_.back() : pages_.size();
  const Address at = range_ + place * page_size;
  if (!contains(at)) return 0;
  Chunk* chunk = nullptr;
  const std::span one(&chunk, 1);
  if (supply_.room() < page_size || !supply_.chunks.create(page_size, PoolKind::small, pool_, one)) {
    chunk = shared() ? lake_.lend_page(at, stream) : nullptr;
  } else if (!supply_.chunks.map_run(at, one)) {
    supply_.chunks.destroy(chunk, pool_);
    return 0;
  }
  if (chunk == nullptr) return 0;
  supply_.chunks.change_kind(chunk, PoolKind::small);
  supply_.journal.note(JournalEntry::Action::map, at, page_size, stream, pool_);
  chunk->home = at;
  if (reuse)
    vacant_.pop_back();
  else
    pages_.emplace_back();
  pages_[place] = {.at = at, .chunk = chunk, .used = true, .clock = {}};
  return at;
}

bool Slabs::take_at(Address at) {
  const auto spare = std::ranges::find(spares_, number(at));
  if (spare == spares_.end()) return false;
  spares_.erase(spare);
  pages_[number(at)].used = true;
  return true;
}

void Slabs::give_back(Address at, const Clock& clock) {
  Page& page = pages_[number(at)];
  page.used = false;
  page.clock = clock;
  spares_.push_back(number(at));
}

void Slabs::trim() {
  std::erase_if(spares_, [this](std::size_t spare) { return discard(pages_[spare]); });
}

bool Slabs::discard(Page& page) {
  if (!supply_.chunks.unmap(page.at, page_size)) return false;
  supply_.journal.note(JournalEntry::Action::unmap, page.at, page_size, 0, pool_);
  supply_.chunks.destroy(page.chunk, pool_);
  page.chunk = nullptr;
  vacant_.push_back(number(page.at));
  return true;
}

void Slabs::check() const {
  std::size_t spare = 0;
  std::size_t vacant = 0;
  for (const Page& page : pages_) {
    if (page.chunk == nullptr)
      ++vacant;
    else if (page.chunk->home != page.at)
      throw BrokenInvariant("the slab at address " + std::to_string(page.at) + " has a chunk that lives elsewhere");
    else if (!page.used)
      ++spare;
  }
  if (spare != spares_.size() || vacant != vacant_.size())
    throw BrokenInvariant("spare or vacant slabs are miscounted");
}

}  // namespace gmlake
