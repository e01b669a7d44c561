// Cutting chunks to measure. What is free in a chunk that is partly in use is lost to everybody else, and a few hundred
// such chunks are what keeps a job from the last percent of a device, or makes it reserve more than the target allows.
// So where one of the two is at hand, a free chunk that a block is about to cover in part is replaced by two, of which
// one is just what the block needs. A program that repeats itself does this once for every place. Where much is lost
// already, more is done for it: space of other lanes is cut, too, and a page that two blocks are going to share becomes
// a chunk of its own, so that neither keeps the other's from moving.
#include <utility>

#include "base/units.h"
#include "pool/lake.h"

namespace gmlake {

// Where the block is going to begin and end chunks shall, too: at the place that the request had, or else in free
// space.
void Lake::cut_to_measure(Address place, const Request& request) {
  const Bytes size = request.size;
  Address at = place;
  if (place == 0 || (arena_.contains(place) && !arena_.is_free(place, size))) {
    const Extent* own = arena_.fit(request.lane, size);
    at = own != nullptr ? own->address : 0;
  }
  if (arena_.contains(at)) cut_edges(at, size);
}

void Lake::cut_edges(Address at, Bytes size) {
  if (supply_.fences.capturing()) return;
  // A chunk that is still mapped where it was before, or where an sBlock was, would not go back to the driver.
  auto settled = [this] { return retirement_.all_unmapped() && stitched_.settled(); };
  if (!settled()) (void)settle(false);
  if (!settled()) return;
  const Address begin = round_down(at, page_size);
  const Address end = round_up(at + size, page_size);
  const Address shared_page = much_is_lost() ? round_down(at + size, page_size) : end;
  for (const auto& [low, high] : {std::pair(begin, begin), std::pair(shared_page, end)}) {
    Chunk* chunk = arena_.chunk_at(low);
    if (chunk == nullptr || chunk->aliases > 0) continue;
    if (chunk->home == low && (high == low || chunk->size == page_size)) continue;
    if (!arena_.is_free(at, size) || !arena_.is_free(chunk->home, chunk->size)) continue;
    Clock clock;
    arena_.merge_clocks(chunk->home, chunk->size, clock);
    if (finished(clock)) cut(chunk, low, high);
  }
}

// Two chunks or three take the place of one. If the driver refuses them there is a hole, and the memory has gone back
// to it. If it has not, because the driver refused that, too, there may be no room for two more.
void Lake::cut(Chunk* chunk, Address low, Address high) {
  const Address at = chunk->home;
  const Bytes size = chunk->size;
  const Lane owner = arena_.covering(at)->owner;
  if (!supply_.chunks.unmap(at, size)) return;
  supply_.journal.note(JournalEntry::Action::unmap, at, size, 0);
  arena_.leave(chunk, Extent::State::hole);
  const Bytes reserved = supply_.chunks.reserved();
  supply_.chunks.destroy(chunk, pool_);
  if (supply_.chunks.reserved() == reserved) return;
  std::vector<Placement>& parts = bench_.plan;
  parts.clear();
  Address from = at;
  for (const Address to : {low, high, at + size}) {
    if (to > from) parts.push_back({.at = from, .size = to - from});
    from = to;
  }
  if (!bring(parts, {})) return;
  settle_in(parts, owner, {});
  note_mapped(JournalEntry::Action::map, 0);
  ++(supply_.scarce || much_is_lost() ? cuts_ : early_cuts_);
  ++supply_.statistics.cuts;
}

// Has everything finished that may use the memory? If that is not known, it is found out for the next time. Not for
// ever: memory that is always used just before would cost an event every time.
bool Lake::finished(const Clock& clock) {
  if (supply_.fences.finished(clock)) return true;
  if (!are_few(delays_)) return false;
  (void)retirement_.settle(false);
  Fences::Ticket ticket;
  if (!retirement_.empty() || !supply_.fences.mark(clock, ticket)) return supply_.fences.finished(clock);
  if (supply_.fences.passed(ticket)) return true;
  retirement_.add(std::move(ticket), {});
  ++delays_;
  return false;
}

}  // namespace gmlake
