#include "pool/lake.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/units.h"

namespace gmlake {

Lake::Lake(Supply& supply, PoolId pool, Address range, Bytes size)
    : supply_(supply),
      pool_(pool),
      shared_(!pool),
      arena_(range, size),
      stitched_(supply, arena_),
      retirement_(supply.chunks, supply.fences, [this](Address at, Bytes bytes) { arena_.bury(at, bytes); }) {
  if (shared_) recall_.emplace();
}

Lake::~Lake() {
  for (Address at = arena_.range(); at < arena_.top(); at += page_size) {
    const Address begin = at;
    while (const Chunk* chunk = arena_.chunk_at(at)) at += chunk->size;
    if (at == begin) continue;
    supply_.chunks.undo(begin, at - begin);
    for (Address home = begin; home < at;) {
      Chunk* chunk = arena_.chunk_at(home);
      home += chunk->size;
      supply_.chunks.destroy(chunk, pool_);
    }
  }
}

bool Lake::allocate_at(Address at, Bytes size, Bytes requested, Stream stream) {
  if (!arena_.contains(at) || !arena_.is_free(at, size)) return false;
  (void)take(at, {size, requested, stream, supply_.fences.lane(stream)});
  active_ += size;
  return true;
}

Lake::Block Lake::find(Address address) const {
  if (!arena_.contains(address)) {
    SBlock* block = stitched_.at(address);
    return {nullptr, block != nullptr && block->active && !block->limbo ? block : nullptr};
  }
  Extent* extent = arena_.starting_at(address);
  const bool live = extent != nullptr && extent->state == Extent::State::live &&
                    !(extent->previous != nullptr && extent->previous->joined);
  return {live ? extent : nullptr, nullptr};
}

Bytes Lake::size(Block block) {
  if (block.stitched != nullptr) return block.stitched->serves;
  Bytes size = block.extent->size;
  for (const Extent* part = block.extent; part->joined; part = part->next) size += part->next->size;
  return size;
}

void Lake::free(Block block, Bytes size, const Clock& clock) {
  active_ -= size;
  if (block.stitched != nullptr)
    stitched_.deactivate(block.stitched, clock);
  else
    arena_.give_back(block.extent, clock);
}

Address Lake::try_take(Address place, const Request& request) {
  if (!arena_.contains(place)) {
    SBlock* block = stitched_.at(place);
    return block != nullptr && block->serves == request.size ? take_known(block, request) : 0;
  }
  Extent* extent = arena_.covering(place);
  if (extent->state != Extent::State::free) return 0;
  if (extent->end() >= place + request.size && supply_.fences.settled(extent->clock, request.lane)) [[likely]]
    return extent->address == place ? take(extent, request) : take(place, request);
  return arena_.is_free(place, request.size) ? take_fenced(place, request) : 0;
}

Address Lake::take_known(SBlock* block, const Request& request) {
  Clock clock;
  if (!stitched_.usable(block, clock) || !supply_.fences.wait(clock, request.stream)) return 0;
  stitched_.activate(block, request.lane, recall_->now());
  block->requested = request.requested;
  ++reused_;
  ++supply_.statistics.sblock_hits;
  return block->address;
}

// The ways to find room that may cost something. What the lane owns, if there is something, is still used by others;
// the place that the request had, if it had one, is not free.
Address Lake::make_room(const Request& request, Extent* own, Address place) {
  if (own != nullptr && supply_.fences.wait(own->clock, request.stream)) return take(own, request);
  if (!shared_) return grow(request);

  if (SBlock* block = stitched_.find(request.size); block != nullptr)
    if (Address at = take_known(block, request); at != 0) return at;
  if (Extent* other = borrow(request, true); other != nullptr)
    if (Address at = take_fenced(other->address, request); at != 0) return at;

  (void)settle(false);
  if (const Extent* other = lowest_settled(request); other != nullptr)
    if (Address at = take_fenced(other->address, request); at != 0) return at;
  if (Address at = grow(request); at != 0) return at;
  if (Extent* other = borrow(request, false); other != nullptr)
    if (Address at = take_fenced(other->address, request); at != 0) return at;

  if (const Extent* mixed = lowest_run(request, Mixing::any); mixed != nullptr)
    if (Address at = take_fenced(mixed->address, request); at != 0) return at;

  if (Address at = mend(place, request); at != 0) return at;
  if (recall_->repeats() && aliasing_pays())
    if (Address at = alias(request); at != 0) return at;
  // Rather chunks from elsewhere than memory beyond the target, rather that than none. The second time it is looked up
  // anew, because chunks may have moved before the driver refused.
  for (const Bytes fresh : {supply_.allowance(request.size), std::numeric_limits<Bytes>::max()})
    if (const std::optional<Move> move = plan(request, fresh); move)
      if (Address at = rehome(*move, request); at != 0) return at;
  return 0;
}

bool Lake::settle(bool wait) {
  const bool own = retirement_.settle(wait);
  const bool stitched = stitched_.settle(wait);
  return own && stitched;
}

// Takes free space that may still be in use by other lanes, or that of several owners.
Address Lake::take_fenced(Address at, const Request& request) {
  if (much_is_lost() && may_cut(request.size)) {
    cut_edges(at, request.size);
    if (!arena_.is_free(at, request.size)) return 0;
  }
  Clock clock;
  arena_.merge_clocks(at, request.size, clock);
  return supply_.fences.wait(clock, request.stream) ? take(at, request) : 0;
}

// The smallest fitting space that the other lanes would offer first.
Extent* Lake::borrow(const Request& request, bool settled) const {
  if (!arena_.others_own(request.lane)) return nullptr;
  Extent* best = nullptr;
  for (Lane other = 0; other < supply_.fences.lanes(); ++other) {
    if (other == request.lane) continue;
    Extent* extent = arena_.fit(other, request.size);
    if (extent == nullptr || (settled && !supply_.fences.settled(extent->clock, request.lane))) continue;
    if (best == nullptr || extent->size < best->size) best = extent;
  }
  return best;
}

bool Lake::may_use(const Extent* extent, Lane lane, Mixing mixing) const {
  if (extent->state != Extent::State::free) return false;
  const bool own = extent->owner == lane;
  return mixing == Mixing::any || (own && mixing == Mixing::own) ||
         ((own || shared_) && supply_.fences.settled(extent->clock, lane));
}

// Free space of several owners, side by side: the first extent of the lowest run below an address that is large enough,
// or nullptr.
const Extent* Lake::lowest_run(const Request& request, Mixing mixing, Address below) const {
  const Bytes size = request.size;
  if (!arena_.several_owners() || size > arena_.longest_gap() || size > supply_.inactive()) return nullptr;
  auto is_free = [](const Extent* extent) { return extent != nullptr && extent->state == Extent::State::free; };
  const Extent* end = nullptr;  // behind a run
  for (const Extent* joint = arena_.joint_from(arena_.first()); joint != nullptr; joint = arena_.joint_from(end)) {
    const Extent* begin = joint->previous;
    while (is_free(begin->previous)) begin = begin->previous;
    for (end = joint->next; is_free(end);) end = end->next;
    if (begin->address >= below) return nullptr;
    const Extent* first = begin;  // of a part that may be used
    for (const Extent* extent = begin; extent != end; extent = extent->next)
      if (!may_use(extent, request.lane, mixing))
        first = extent->next;
      else if (extent->end() - first->address >= size)
        return first->address < below ? first : nullptr;
  }
  return nullptr;
}

// The lowest free space of other lanes whose work has surely finished, in one piece or in several; or nullptr.
const Extent* Lake::lowest_settled(const Request& request) const {
  const Lane lane = request.lane;
  if (!arena_.others_own(lane)) return nullptr;
  const Extent* lowest = nullptr;
  Address below = anywhere;
  auto keep = [&](const Extent* found) {
    if (found == nullptr) return;
    lowest = found;
    below = found->address;
  };
  auto settled = [&](const Extent* extent) { return supply_.fences.settled(extent->clock, lane); };
  for (Lane other = 0; other < supply_.fences.lanes(); ++other)
    if (other != lane) keep(arena_.lowest_fit(other, request.size, below, settled));
  keep(lowest_run(request, Mixing::own, below));
  return lowest;
}

template <typename Visit>
void Lake::each_gap(const Request& request, Bytes lack, Mixing mixing, Visit visit) {
  const Bytes size = request.size;
  auto usable = [&](const Extent* extent) {
    return extent->state == Extent::State::hole || may_use(extent, request.lane, mixing);
  };
  // Away from seams, free space that fits has been found before.
  Gap& gap = bench_.gap;
  const bool all = size <= arena_.longest_gap();
  Bytes longest = 0;
  for (const Extent* seam = arena_.first_seam(size); seam != nullptr; seam = arena_.seam_from(seam)) {
    const Extent* begin = seam;
    const Extent* last = seam;
    while (begin->previous != nullptr && begin->previous->idle()) begin = begin->previous;
    while (last->next != nullptr && last->next->idle()) last = last->next;
    longest = std::max(longest, Arena::gap_length(begin, last));
    seam = last->next;
    if (last->end() - begin->address < size) continue;
    // One after the other, the parts of it that may be used.
    for (const Extent *first = begin, *next = begin; first != seam; first = next == first ? first->next : next) {
      Bytes mapped = 0;
      for (next = first; next != seam && usable(next); next = next->next)
        if (next->state == Extent::State::free) mapped += next->size;
      const Address end = next != nullptr ? next->address : arena_.range() + arena_.size();
      if (end - first->address < size || (mapped < size && size - mapped > lack)) continue;
      gap.clear();
      for (const Extent* piece = first; piece != next; piece = piece->next)
        gap.push_back({piece->address, piece->size, piece->state == Extent::State::free});
      if (!visit(gap)) return;
    }
  }
  if (all) arena_.set_longest_gap(longest);
}

// The window that lacks least, of at most `lack`; the lowest of equals.
bool Lake::best_place(const Request& request, Bytes lack, Mixing mixing, Place& best) {
  bool found = false;
  each_gap(request, lack, mixing, [&](Gap& gap) {
    const Window window = best_window(gap, request.size);
    if (window.unmapped <= lack && (!found || window.unmapped < best.window.unmapped)) {
      found = true;
      best.gap.swap(gap);
      best.window = window;
    }
    return !found || best.window.unmapped > 0;
  });
  return found;
}

std::vector<Lake::Place> Lake::places(const Request& request) {
  std::vector<Place> result;
  each_gap(request, request.size, Mixing::any, [&](const Gap& gap) {
    result.push_back({gap, best_window(gap, request.size)});
    return true;
  });
  std::ranges::stable_sort(result, {}, [](const Place& place) { return place.window.unmapped; });
  return result;
}

// Chunks that are free as a whole: those first that leave little behind, because what is left of a run is of little
// use. Of equals the largest where memory is scarce, because there small ones were cut off; then by address.
std::vector<Lake::Donor> Lake::donors(Bytes& splinters) const {
  std::vector<Donor> result;
  splinters = 0;
  for (const Extent* extent = arena_.idle_from(arena_.first()); extent != nullptr; extent = arena_.idle_from(extent)) {
    if (extent->state != Extent::State::free) {
      extent = extent->next;
      continue;
    }
    const Address begin = extent->address;
    Address end = begin;
    for (; extent != nullptr && extent->state == Extent::State::free; extent = extent->next) end = extent->end();
    const std::size_t first = result.size();
    Bytes left = end - begin;
    for (Address at = round_up(begin, page_size); at < end;) {
      Chunk* chunk = arena_.chunk_at(at);
      const Address chunk_end = chunk->home + chunk->size;
      if (chunk->home >= begin && chunk_end <= end) {
        left -= chunk->size;
        result.push_back({chunk, 0});
      }
      at = chunk_end;
    }
    for (Donor& donor : std::span(result).subspan(first)) donor.left = left;
    splinters += left;
  }
  auto last = [this](const Donor& donor) {
    return std::pair(donor.left, supply_.scarce ? supply_.chunk_limit - donor.chunk->size : 0);
  };
  std::ranges::stable_sort(result, {}, last);
  return result;
}

std::vector<Lake::Donor> Lake::donors() {
  Bytes splinters = 0;
  std::vector<Donor> result = donors(splinters);
  splintered_ = supply_.tight && splinters > supply_.chunks.reserved() / 128;
  return result;
}

std::vector<Chunk*> Lake::lowest_free() {
  std::vector<Chunk*> result;
  for (const Donor& donor : donors()) result.push_back(donor.chunk);
  std::ranges::sort(result, {}, &Chunk::home);
  return result;
}

Lake::Splinters Lake::splinters() const {
  Splinters result;
  for (const Extent* extent = arena_.first(); extent != nullptr; extent = extent->next) {
    if (extent->state != Extent::State::free) continue;
    const Chunk* first = arena_.chunk_at(extent->address);
    const Chunk* last = arena_.chunk_at(extent->end() - 1);
    const bool whole = first->home == extent->address && last->home + last->size == extent->end();
    if (!whole) ++result.count;
  }
  Bytes bytes = 0;
  (void)donors(bytes);
  result.bytes = static_cast<std::int64_t>(bytes);
  return result;
}

void Lake::check() const {
  arena_.check();
  stitched_.check();
}

}  // namespace gmlake
