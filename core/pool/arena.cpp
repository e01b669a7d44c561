#include "pool/arena.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {

Arena::Arena(Address range, Bytes size) : range_(range), size_(size), top_(range) {
  reach(range + first_reach * page_size);
  Extent hole;
  hole.address = range;
  hole.size = size;
  first_extent_ = last_extent_ = store_.make(hole);
  starts_[0] = first_extent_;
  occupied_[0] |= 1;
  note_idle(first_extent_);
}

// ---- look-up

Arena::Index::Index() : bins(large / unit) {}

Arena::Index& Arena::make_index(Lane owner) {
  index_[owner] = std::make_unique<Index>();
  ++owners_;
  index_[owner]->lowest.resize(cells_.size());
  return *index_[owner];
}

Extent* Arena::fit_large(Index& index, Bytes size) const {
  size = std::max(size, large);
  if (size > largest_indexed) return nullptr;
  const std::size_t cell = index.lowest.find(indexed(size));
  return cell == FirstFit::none ? nullptr : cells_[cell];
}

Extent* Arena::covering(Address address) const {
  std::size_t slot = std::min(slot_of(address), starts_.size() - 1);
  if (starts_[slot] == nullptr || starts_[slot]->address > address) {  // the last start before this slot
    std::size_t word = slot / word_bits;
    std::uint64_t bits = occupied_[word] & (bit(slot) - 1);
    while (bits == 0) bits = occupied_[--word];
    slot = word * word_bits + static_cast<std::size_t>(std::bit_width(bits)) - 1;
  }
  Extent* extent = starts_[slot];
  while (extent->end() <= address) extent = extent->next;
  return extent;
}

// Regions in which nothing like it begins are skipped by the bitmap; those that only seemed to have something leave it.
template <typename Wanted>
const Extent* Arena::search(Regions& regions, const Extent* extent, Wanted wanted) const {
  for (bool whole = false; extent != nullptr; whole = true) {
    std::size_t region = region_of(extent->address);
    for (; extent != nullptr && region_of(extent->address) == region; extent = extent->next)
      if (wanted(extent)) return extent;
    if (whole) regions[region / word_bits] &= ~bit(region);
    do {
      region = next_region(regions, region + 1);
      if (region == regions.size() * word_bits) return nullptr;
      extent = first_in_region(region);
      if (extent == nullptr) regions[region / word_bits] &= ~bit(region);
    } while (extent == nullptr);
  }
  return nullptr;
}

const Extent* Arena::idle_from(const Extent* extent) const {
  return search(idle_, extent, [](const Extent* found) { return found->idle(); });
}

const Extent* Arena::seam_from(const Extent* extent) const {
  return search(seams_, extent, is_seam);
}

const Extent* Arena::joint_from(const Extent* extent) const {
  return search(joints_, extent, is_joint);
}

std::size_t Arena::next_region(const Regions& regions, std::size_t region) {
  std::size_t word = region / word_bits;
  if (word >= regions.size()) return regions.size() * word_bits;
  std::uint64_t bits = regions[word] & (~std::uint64_t{0} << region % word_bits);
  while (bits == 0) {
    if (++word == regions.size()) return word * word_bits;
    bits = regions[word];
  }
  return word * word_bits + static_cast<std::size_t>(std::countr_zero(bits));
}

Extent* Arena::first_in_region(std::size_t region) const {
  static_assert(word_bits % region_slots == 0);
  const std::size_t slot = region * region_slots;
  const std::uint64_t taken = occupied_[slot / word_bits] >> slot % word_bits & (bit(region_slots) - 1);
  return taken == 0 ? nullptr : starts_[slot + static_cast<std::size_t>(std::countr_zero(taken))];
}

bool Arena::any_free() const {
  const Extent* extent = idle_from(first_extent_);
  while (extent != nullptr && extent->state != Extent::State::free) extent = idle_from(extent->next);
  return extent != nullptr;
}

bool Arena::is_free(Address at, Bytes size) const {
  const Extent* extent = covering(at);
  for (; extent != nullptr && extent->state == Extent::State::free; extent = extent->next)
    if (extent->end() >= at + size) return true;
  return false;  // or it ends beyond the arena
}

void Arena::merge_clocks(Address at, Bytes size, Clock& clock) const {
  for (Extent* extent = covering(at); extent != nullptr && extent->address < at + size; extent = extent->next)
    clock.merge(extent->clock);
}

// ---- blocks

void Arena::take_front(Extent* free, Bytes size, Extent::State state) {
  Extent* rest = split(free, size);
  free->state = state;
  list(rest);
}

Extent* Arena::take(Address at, Bytes size, Extent::State state, Lane user) {
  Extent* extent = covering(at);
  if (extent->address < at) {
    unlist(extent);
    Extent* rest = split(extent, at - extent->address);
    list(extent);
    list(rest);
    extent = rest;
  }
  Extent* block = extent;
  for (const Address end = at + size;; extent = extent->next) {
    take(extent, std::min(extent->end(), end) - extent->address, state, user);
    extent->joined = extent->end() < end;
    if (!extent->joined) return block;
  }
}

void Arena::give_back(Extent* block, const Clock& clock) {
  for (bool more = true; more;) {
    more = block->joined;
    Extent* next = block->next;
    block->joined = false;
    block->clock.merge(clock);
    give_back_one(block);
    block = next;
  }
}

// ---- chunks

void Arena::settle_at(Address at, std::span<Chunk* const> run, Lane owner, const Clock& clock) {
  Address end = at;
  for (Chunk* chunk : run) {
    chunk->home = end;
    end += chunk->size;
  }
  reach(end + page_size);
  for (Chunk* chunk : run)
    std::fill_n(chunks_.begin() + static_cast<std::ptrdiff_t>(page_of(chunk->home)), chunk->size / page_size, chunk);
  Extent* extent = covering(at);
  if (extent->address < at) extent = split(extent, at - extent->address);
  if (extent->end() > end) split(extent, end - at);
  extent->owner = owner;
  extent->clock = clock;
  top_ = std::max(top_, extent->end());
  become(extent, Extent::State::free);
}

void Arena::leave(Chunk* chunk, Extent::State state) {
  const Address at = chunk->home;
  // A chunk's space may be in the hands of several owners: take it out piece by piece.
  for (Extent* extent = take(at, chunk->size, Extent::State::live, 0);;) {
    const bool more = extent->joined;
    Extent* next = extent->next;
    extent->joined = false;
    extent->clock = {};
    extent->owner = 0;
    become(extent, state);
    if (!more) break;
    extent = next;
  }
  std::fill_n(chunks_.begin() + static_cast<std::ptrdiff_t>(page_of(at)), chunk->size / page_size, nullptr);
  chunk->home = 0;
}

void Arena::bury(Address at, Bytes size) {
  Extent* extent = covering(at);
  if (extent->address < at) extent = split(extent, at - extent->address);
  if (extent->size > size) split(extent, size);
  become(extent, Extent::State::hole);
}

// ---- the list of extents and its indexes

void Arena::link_after(Extent* extent, Extent* before) {
  extent->previous = before;
  extent->next = before->next;
  before->next = extent;
  if (extent->next != nullptr)
    extent->next->previous = extent;
  else
    last_extent_ = extent;
  const std::size_t slot = slot_of(extent->address);
  if (slot >= starts_.size()) reach(extent->address + page_size);
  if (slot_of(before->address) != slot) {  // the first of its slot
    starts_[slot] = extent;
    occupied_[slot / word_bits] |= bit(slot);
  }
}

void Arena::unlink(Extent* extent) {
  const std::size_t slot = slot_of(extent->address);
  if (starts_[slot] == extent) {
    Extent* next = extent->next;
    const bool same = next != nullptr && slot_of(next->address) == slot;
    starts_[slot] = same ? next : nullptr;
    if (!same) occupied_[slot / word_bits] &= ~bit(slot);
  }
  if (extent->previous != nullptr) extent->previous->next = extent->next;
  if (extent->next != nullptr)
    extent->next->previous = extent->previous;
  else
    last_extent_ = extent->previous;
}

Extent* Arena::split(Extent* extent, Bytes size) {
  Extent* rest = store_.make(*extent);
  rest->address += size;
  rest->size -= size;
  extent->size = size;
  link_after(rest, extent);
  note_idle(rest);
  return rest;
}

void Arena::join_next(Extent* extent, Extent::State state) {
  Extent* next = extent->next;
  if (state == Extent::State::free) unlist(next);
  extent->size += next->size;
  extent->clock.merge(next->clock);
  drop(next);
}

Extent* Arena::join_previous(Extent* extent, Extent::State state) {
  Extent* previous = extent->previous;
  if (state == Extent::State::free && previous->size < large) unlist(previous);  // a large one is just listed anew
  previous->size += extent->size;
  previous->clock.merge(extent->clock);
  drop(extent);
  return previous;
}

void Arena::reach(Address end) {
  const std::size_t pages = page_of(std::min(end, range_ + size_) + page_size - 1);
  if (pages <= chunks_.size()) return;
  const std::size_t wanted = std::max(pages, 2 * chunks_.size());
  chunks_.resize(wanted);
  starts_.resize(wanted * page_size / slot_size);
  occupied_.resize(starts_.size() / word_bits + 1);
  idle_.resize(occupied_.size() / region_slots + 1);
  seams_.resize(idle_.size());
  joints_.resize(idle_.size());
  cells_.resize(wanted * page_size / large + 1);
  for (auto& index : index_)
    if (index != nullptr) index->lowest.resize(cells_.size());
}

void Arena::check() const {
  auto fail = [](const std::string& what, Address at) {
    throw BrokenInvariant("arena: " + what + " at address " + std::to_string(at));
  };
  Address at = range_;
  const Extent* gap = nullptr;  // the first extent of it
  std::int64_t listed = 0;      // large free extents
  for (Extent* extent = first_extent_; extent != nullptr; extent = extent->next) {
    gap = !extent->idle() ? nullptr : gap == nullptr ? extent : gap;
    if (gap != nullptr && gap_length(gap, extent) > longest_gap_) fail("a gap is longer than the longest", at);
    if (extent->address != at) fail("extents do not tile the range", extent->address);
    if (extent->size == 0 || extent->size % unit != 0) fail("an extent has an odd size", at);
    if (joins(extent->next, extent->state, extent->owner)) fail("neighbours were not joined", at);
    auto noted = [&](const Regions& regions) { return next_region(regions, region_of(at)) == region_of(at); };
    if ((extent->idle() && !noted(idle_)) || (is_seam(extent) && !noted(seams_)) ||
        (is_joint(extent) && !noted(joints_)))
      fail("an idle extent, a seam or a joint is not in its bitmap", at);
    if (starting_at(at) != extent || covering(at + extent->size - 1) != extent) fail("the index of slots is wrong", at);
    for (Address page = round_up(at - range_, page_size) + range_; page < std::min(extent->end(), top_);
         page += page_size)
      if ((chunk_at(page) != nullptr) != extent->mapped()) fail("mapped extents and chunks differ", page);
    if (extent->state == Extent::State::free) {
      Index& index = *index_[extent->owner];
      const FirstFit::Size units = indexed(extent->size);
      const std::size_t cell = cell_of(at);
      if (extent->size >= large) ++listed;
      if (extent->size < large
              ? !index.bins.contains(extent, extent->size / unit)
              : cells_[cell] != extent || index.lowest.at(cell) != units || index.lowest.find(units) > cell)
        fail("a free extent is not in its index", at);
    }
    at = extent->end();
  }
  if (at != range_ + size_ || last_extent_->end() != at) fail("extents end early", at);
  for (Lane owner = 0; owner < lane_count; ++owner) {
    const std::size_t cells = index_[owner] == nullptr ? 0 : index_[owner]->lowest.count();
    for (std::size_t cell = 0; cell < cells; ++cell)
      if (index_[owner]->lowest.at(cell) != 0) --listed;
  }
  if (listed != 0) fail("an index knows more or fewer large extents than there are", range_);
}

}  // namespace gmlake
