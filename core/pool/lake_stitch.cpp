// How a lake gets memory where it is needed: creating chunks, stitching free ones, giving them back. What the driver
// refuses half-way is undone.
#include <algorithm>
#include <limits>

#include "base/units.h"
#include "pool/lake.h"

namespace gmlake {

// S4 without donors: completes the window that lacks least with new chunks.
Address Lake::grow(const Request& request) {
  // A private pool has no other way to get memory than to grow, whatever the target says; nor has anybody else while a
  // stream captures, because what that stream used cannot be fenced.
  const bool fenced = !supply_.fences.capturing();
  const Bytes allowed = shared_ && fenced ? supply_.allowance(request.size) : std::numeric_limits<Bytes>::max();
  const Address at = plan_growth(request, std::min(allowed, supply_.room()), fenced ? Mixing::own : Mixing::settled);
  if (at == 0) return 0;
  Clock clock;  // of what is there; looked at before new memory is joined with neighbours that are used elsewhere
  arena_.merge_clocks(at, request.size, clock);
  if (!supply_.fences.wait(clock, request.stream) || !bring(bench_.plan, {})) return 0;
  settle_in(bench_.plan, request.lane, {});
  if (!bench_.mapped.empty()) ++supply_.statistics.grows;
  note_mapped(JournalEntry::Action::map, request.stream);
  return take(at, request);
}

// The window that lacks least, if that is at most `lack`, and in bench_.plan the new chunks for it. 0: there is none.
Address Lake::plan_growth(const Request& request, Bytes lack, Mixing mixing) {
  const Bytes size = request.size;
  // Small chunks fit where they move to; those of a private pool stay.
  const Bytes chunk = shared_ ? supply_.chunk_size(size) : supply_.chunk_limit;
  // Mostly no gap is long enough but the one at the arena's end, from where free space leads up to it on. There
  // best_place would find just this, at a higher cost.
  if (const Extent* end = arena_.last(); size > arena_.longest_gap() && end->state == Extent::State::hole) {
    const Extent* first = end;
    while (first->previous != nullptr && may_use(first->previous, request.lane, mixing)) first = first->previous;
    const bool after_hole = first->previous != nullptr && first->previous->state == Extent::State::hole;
    if (!after_hole && end->address - first->address < size) {
      const Void rest{end->address, round_up(first->address + size, page_size) - end->address, end->size};
      if (rest.need > std::min(lack, rest.room)) return 0;
      fill({&rest, 1}, {}, chunk, 0, bench_.plan);
      return first->address;
    }
  }
  const auto& [gap, window] = bench_.place;
  if (!best_place(request, lack, mixing, bench_.place)) return 0;
  voids(gap, window, size, bench_.voids);
  fill(bench_.voids, {}, chunk, 0, bench_.plan);
  return window.at;
}

// S3 where the request had an sBlock of which a part is in use now: a program that releases in another order every time
// finds its sBlocks nearly free, and to replace the rest takes a fraction of the mappings of a new one. Not if the
// sBlock served another request since: to that it would be lost, and the program might not come to rest.
Address Lake::mend(Address place, const Request& request) {
  SBlock* block = place == 0 || arena_.contains(place) ? nullptr : stitched_.at(place);
  if (block == nullptr || block->active) return 0;
  if (block->serves != request.size || block->last_request != recall_->met()) return 0;
  Fences::Ticket ticket;
  if (!supply_.fences.mark(block->clock, ticket)) return 0;
  if (!supply_.fences.passed(ticket)) {  // what is mapped there is still used; from the next time on this is known
    retirement_.add(std::move(ticket), {});
    return 0;
  }
  if (!stitched_.mend(block, lowest_free())) return 0;
  ++supply_.statistics.stitches;
  ++supply_.statistics.mends;
  supply_.journal.note(JournalEntry::Action::stitch, block->address, block->size, request.stream);
  return take_known(block, request);
}

// S3 in a program that repeats itself: the chunks keep their home and get a second address, which will be there the
// next time, too. Always the lowest chunks, so that different sBlocks are made of the same memory and the rest is left
// alone.
Address Lake::alias(const Request& request) {
  std::vector<Chunk*> chunks = lowest_free();
  Bytes total = 0;
  std::size_t count = 0;
  while (count < chunks.size() && total < request.size) total += chunks[count++]->size;
  if (total < request.size) return 0;
  chunks.resize(count);
  moved_ += static_cast<std::int64_t>(count);
  Clock clock;
  for (const Chunk* chunk : chunks) arena_.merge_clocks(chunk->home, chunk->size, clock);
  if (!supply_.fences.wait(clock, request.stream)) return 0;
  SBlock* block = stitched_.make(request.size, std::move(chunks));
  if (block == nullptr) return 0;
  ++aliased_;
  ++supply_.statistics.stitches;
  supply_.journal.note(JournalEntry::Action::stitch, block->address, block->size, request.stream);
  stitched_.activate(block, request.lane, recall_->now());
  stitched_.keep_budget(block);
  block->requested = request.requested;
  return block->address;
}

// The move that needs the fewest mappings and creates at most `fresh` bytes. A window between blocks may be bounded in
// a way that the chunks at hand do not fill; the last one, at the arena's end, never is.
std::optional<Lake::Move> Lake::plan(const Request& request, Bytes fresh) {
  const Bytes size = request.size;
  fresh = std::min(fresh, supply_.room());
  const std::vector<Donor> all = donors();
  for (const auto& [gap, window] : places(request)) {
    const Address from = round_down(window.at, page_size);
    const Address to = round_up(window.at + size, page_size);
    Move move{.at = window.at, .donors = {}, .pieces = {}};
    std::vector<Bytes> sizes;
    Bytes within_reach = fresh;
    for (const Donor& donor : all) {
      if (donor.chunk->home + donor.chunk->size > from && donor.chunk->home < to) continue;
      move.donors.push_back(donor.chunk);
      sizes.push_back(donor.chunk->size);
      within_reach += donor.chunk->size;
    }
    if (window.unmapped > within_reach) continue;  // without pieces, which are many for a request beyond the device
    voids(gap, window, size, bench_.voids);
    fill(bench_.voids, sizes, supply_.chunk_size(size), std::min(fresh, supply_.allowance(size)), move.pieces);
    Bytes created = 0;
    for (const Placement& piece : move.pieces)
      if (piece.donor == Placement::fresh) created += piece.end() - piece.at;
    if (created <= fresh) return move;
  }
  return std::nullopt;
}

// S3 and S4 for the rest: free chunks leave their address for good, and the old addresses retire behind the work that
// may still use them.
Address Lake::rehome(const Move& move, const Request& request) {
  Clock clock;
  for (const Placement& place : move.pieces)
    if (place.donor != Placement::fresh) {
      const Chunk* chunk = move.donors[place.donor];
      arena_.merge_clocks(chunk->home, chunk->size, clock);
    }
  Fences::Ticket ticket;
  if (!supply_.fences.wait(clock, request.stream) || !supply_.fences.mark(clock, ticket)) return 0;
  if (!bring(move.pieces, move.donors)) {
    retirement_.add(std::move(ticket), {});
    return 0;
  }
  std::vector<Span> old;
  Bytes moved = 0;
  for (Chunk* chunk : bench_.chunks) {
    if (chunk->home == 0) continue;
    moved += chunk->size;
    ++moved_;
    if (!old.empty() && old.back().at + old.back().size == chunk->home)
      old.back().size += chunk->size;
    else
      old.push_back({chunk->home, chunk->size});
    arena_.leave(chunk, Extent::State::dying);
  }
  settle_in(move.pieces, request.lane, clock);
  if (!bench_.mapped.empty()) ++(moved > 0 ? supply_.statistics.stitches : supply_.statistics.grows);
  supply_.statistics.rehomed_bytes += static_cast<std::int64_t>(moved);
  note_mapped(moved > 0 ? JournalEntry::Action::stitch : JournalEntry::Action::map, request.stream);
  retirement_.add(std::move(ticket), std::move(old));
  return try_take(move.at, request);
}

// Maps the chunks where the plan says; they are in bench_.chunks, and still at home elsewhere if they are donors. New
// mappings are made before old ones are given up, so that a refusal of the driver at any point can be undone.
bool Lake::bring(std::span<const Placement> plan, std::span<Chunk* const> donors) {
  std::vector<Chunk*>& chunks = bench_.chunks;
  std::vector<Span>& mapped = bench_.mapped;
  chunks.clear();
  mapped.clear();
  bool done = true;
  for (auto place = plan.begin(); done && place != plan.end();) {  // run by run
    const Address at = place->at;
    const std::size_t first = chunks.size();
    Address end = at;
    for (; done && place != plan.end() && place->at == end; end = place++->end()) done = provide(*place, donors);
    done = done && supply_.chunks.map_run(at, std::span(chunks).subspan(first));
    if (done) mapped.push_back({at, end - at});
  }
  if (done) return true;
  for (const Span& span : mapped) supply_.chunks.undo(span.at, span.size);
  for (Chunk* chunk : chunks)
    if (chunk->home == 0) supply_.chunks.destroy(chunk, pool_);
  return false;
}

// Adds the chunks of a place to those at hand. False: the driver refused to create them, and none was added.
bool Lake::provide(const Placement& place, std::span<Chunk* const> donors) {
  std::vector<Chunk*>& chunks = bench_.chunks;
  const std::size_t first = chunks.size();
  chunks.resize(first + place.count);
  if (place.donor != Placement::fresh) {
    chunks[first] = donors[place.donor];
    return true;
  }
  if (supply_.chunks.create(place.size, PoolKind::large, pool_, std::span(chunks).subspan(first))) return true;
  chunks.resize(first);
  return false;
}

// The chunks that were brought are free space of the lane from now on: those that moved not before the clock.
void Lake::settle_in(std::span<const Placement> plan, Lane lane, const Clock& clock) {
  std::size_t settled = 0;
  for (auto place = plan.begin(); place != plan.end();) {  // run by run, of new chunks or of moved ones
    const bool fresh = place->donor == Placement::fresh;
    const Address at = place->at;
    const std::size_t first = settled;
    for (Address end = at; place != plan.end() && place->at == end && (place->donor == Placement::fresh) == fresh;
         end = place++->end())
      settled += place->count;
    arena_.settle_at(at, std::span(bench_.chunks).subspan(first, settled - first), lane, fresh ? Clock{} : clock);
  }
}

void Lake::note_mapped(JournalEntry::Action action, Stream stream) {
  for (const Span& span : bench_.mapped) supply_.journal.note(action, span.at, span.size, stream, pool_);
}

bool Lake::trim(Bytes enough) {
  stitched_.drop_idle();
  if (!supply_.fences.drain()) return false;
  (void)settle(true);
  Bytes given = 0;
  for (const Donor& donor : donors()) {
    if (given >= enough) break;
    Chunk* chunk = donor.chunk;
    if (chunk->aliases > 0) continue;  // an sBlock could not be dropped
    const Address at = chunk->home;
    const Bytes size = chunk->size;
    if (!supply_.chunks.unmap(at, size)) continue;
    supply_.journal.note(JournalEntry::Action::unmap, at, size, 0, pool_);
    arena_.leave(chunk, Extent::State::hole);
    supply_.chunks.destroy(chunk, pool_);
    given += size;
  }
  return true;
}

Chunk* Lake::lend_page(Address to, Stream stream) {
  for (const Donor& donor : donors()) {
    Chunk* chunk = donor.chunk;
    if (chunk->size != page_size || chunk->aliases > 0) continue;
    const Address at = chunk->home;
    Clock clock;
    arena_.merge_clocks(at, chunk->size, clock);
    Fences::Ticket ticket;
    if (!supply_.fences.wait(clock, stream) || !supply_.fences.mark(clock, ticket)) return nullptr;
    const bool mapped = supply_.chunks.map_run(to, std::span(&chunk, 1));
    if (mapped) arena_.leave(chunk, Extent::State::dying);
    retirement_.add(std::move(ticket), mapped ? std::vector<Span>{{at, chunk->size}} : std::vector<Span>{});
    return mapped ? chunk : nullptr;
  }
  return nullptr;
}

}  // namespace gmlake
