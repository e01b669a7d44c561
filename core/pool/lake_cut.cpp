// Cutting chunks to measure. What is free in a chunk that is partly in use is lost to everybody else, and a few hundred
// such chunks are what keeps a job from the last percent of a device, or makes it reserve more than the target allows.
// So where one of the two is at hand, a free chunk that a block is about to cover in part is replaced by two, of which
// one is just what the block needs. A program that repeats itself does this once for every place.
#include <array>

#include "base/units.h"
#include "pool/lake.h"

namespace gmlake {

// Where the block is going to begin and end chunks shall, too: at the place that the request had, or else in free
// space.
void Lake::cut_to_measure(Address place, const Request& request) {
  if (supply_.fences.capturing()) return;
  const Bytes size = request.size;
  Address at = place;
  if (place == 0 || (arena_.contains(place) && !arena_.is_free(place, size))) {
    const Extent* own = arena_.fit(request.lane, size);
    at = own != nullptr ? own->address : 0;
  }
  if (!arena_.contains(at)) return;
  for (const Address edge : {round_down(at, supply_.page), round_up(at + size, supply_.page)}) {
    Chunk* chunk = arena_.chunk_at(edge);
    if (chunk == nullptr || chunk->home == edge || chunk->aliases > 0) continue;
    if (!arena_.is_free(at, size) || !arena_.is_free(chunk->home, chunk->size)) continue;
    Clock clock;
    arena_.merge_clocks(chunk->home, chunk->size, clock);
    if (finished(clock)) cut(chunk, edge);
  }
}

// Two chunks take the place of one. If the driver refuses them there is a hole, and the memory has gone back to it.
void Lake::cut(Chunk* chunk, Address edge) {
  const Address at = chunk->home;
  const Bytes size = chunk->size;
  const Lane owner = arena_.covering(at)->owner;
  if (!supply_.chunks.unmap(at, size)) return;
  supply_.journal.note(JournalEntry::Action::unmap, at, size, 0);
  arena_.leave(chunk, Extent::State::hole);
  supply_.chunks.destroy(chunk, pool_);
  const std::array<Placement, 2> parts{{{.at = at, .size = edge - at}, {.at = edge, .size = at + size - edge}}};
  if (!bring(parts, {})) return;
  settle_in(parts, owner, {});
  note_mapped(JournalEntry::Action::map, 0);
  ++(supply_.scarce ? cuts_ : early_cuts_);
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
