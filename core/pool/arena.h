// One growing range of addresses in which blocks are split and coalesced. Free space belongs to lanes: a lane's
// requests are served from its own, and what another lane borrows returns to its owner, so that a program that repeats
// itself finds the same layout again. Requests of 32 MiB and more take the lowest address that fits: first fit packs
// what lives long at the bottom and leaves the large runs at the top. Smaller ones take the best fit, so that they fill
// the gaps. The arena knows which chunk is at home where, but calls no driver and decides nothing about growing,
// stitching or waiting: the lake does.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/store.h"
#include "base/units.h"
#include "memory/chunks.h"
#include "pool/bins.h"
#include "pool/extent.h"
#include "pool/first_fit.h"

namespace gmlake {

class Arena {
 public:
  Arena(Address range, Bytes size);

  Address range() const { return range_; }
  Bytes size() const { return size_; }
  bool contains(Address address) const { return address - range_ < size_; }

  // Look-up.
  Extent* first() const { return first_extent_; }
  Extent* last() const { return last_extent_; }
  Extent* fit(Lane owner, Bytes size) const {  // free space for a request, or nullptr
    Index* index = index_[owner].get();
    if (index == nullptr) return nullptr;
    if (size < large)
      if (Extent* best = index->bins.best_fit(size / unit); best != nullptr) return best;
    return fit_large(*index, size);
  }
  // The lowest free space of an owner for a request that is below `below` and that usable(extent) accepts, or nullptr.
  template <typename Usable>
  const Extent* lowest_fit(Lane owner, Bytes size, Address below, Usable usable) const {
    const Index* index = index_[owner].get();
    const Extent* lowest = nullptr;
    auto consider = [&](const Extent* extent) {
      if (extent->address < below && usable(extent)) {
        lowest = extent;
        below = extent->address;
      }
    };
    if (index == nullptr || size > largest_indexed) return nullptr;
    if (size < large) index->bins.each_fit(size / unit, consider);
    index->lowest.each_fit(indexed(std::max(size, large)), [&](std::size_t cell) {
      consider(cells_[cell]);
      return cells_[cell]->address < below;
    });
    return lowest;
  }
  Extent* starting_at(Address address) const {  // the extent that begins exactly there, or nullptr
    const std::size_t slot = slot_of(address);
    if (slot >= starts_.size()) return nullptr;
    Extent* extent = starts_[slot];
    while (extent != nullptr && extent->address < address) extent = extent->next;
    return extent != nullptr && extent->address == address ? extent : nullptr;
  }
  Extent* covering(Address address) const;
  // It or the first after it that is free or a hole; that is a seam; that is a joint. nullptr: there is none. At a
  // *seam* free space goes on in another way: it is a hole, or a *joint*, right behind the free space of another owner.
  const Extent* idle_from(const Extent* extent) const;
  const Extent* seam_from(const Extent* extent) const;
  const Extent* joint_from(const Extent* extent) const;
  // A *gap* is idle space with a seam in it, without the hole at the arena's end. None is longer than this: who has
  // looked at all of them says so, and it holds until one grows.
  Bytes longest_gap() const { return longest_gap_; }
  void set_longest_gap(Bytes longest) { longest_gap_ = longest; }
  static Bytes gap_length(const Extent* first, const Extent* last) {
    if (first != last && is_end(last)) last = last->previous;
    return first == last && (is_end(first) || !is_seam(first)) ? 0 : last->end() - first->address;
  }
  // The lowest seam where a gap of this size may be; if none is so long, the arena's end.
  const Extent* first_seam(Bytes size) const { return seam_from(size > longest_gap_ ? last_extent_ : first_extent_); }
  Chunk* chunk_at(Address address) const {
    const std::size_t page = page_of(address);
    return page < chunks_.size() ? chunks_[page] : nullptr;
  }
  bool is_free(Address at, Bytes size) const;  // every byte, whoever owns it
  void merge_clocks(Address at, Bytes size, Clock& clock) const;

  // Blocks. `at` .. `at + size` must be free; the result is the first extent of the block.
  [[gnu::always_inline]] Extent* take(Extent* free, Bytes size, Extent::State state, Lane user) {
    unlist(free);
    if (free->size > size)
      take_front(free, size, state);
    else
      free->state = state;
    free->user = user;
    free->uses = 0;
    return free;
  }
  Extent* take(Address at, Bytes size, Extent::State state, Lane user);
  void give_back(Extent* block, const Clock& clock);  // all joined extents become free for their owners
  void give_back_one(Extent* block) { become(block, Extent::State::free); }  // its clock knows of the last use

  // Chunks. settle_at makes a hole free space of the owner; leave makes free space a dying span or a hole.
  void settle_at(Address at, std::span<Chunk* const> run, Lane owner, const Clock& clock);
  void leave(Chunk* chunk, Extent::State state);
  void bury(Address at, Bytes size);  // a dying span has been unmapped: now it is a hole

  bool any_free() const;
  bool several_owners() const { return owners_ > 1; }  // so far
  bool others_own(Lane lane) const { return owners_ > (index_[lane] != nullptr ? 1 : 0); }
  Address top() const { return top_; }  // nothing was ever mapped at or above

  void check() const;  // throws BrokenInvariant

 private:
  std::size_t page_of(Address address) const { return (address - range_) / page_size; }
  // Extents are looked up by slots of 1 MiB, in which hardly more than one begins: the blocks of an arena are larger.
  static constexpr Bytes slot_size = Bytes{1} << 20;
  std::size_t slot_of(Address address) const { return (address - range_) / slot_size; }
  static constexpr std::size_t word_bits = 64;
  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % word_bits; }
  // Idle ones are looked for all over the arena, in larger steps: regions of 16 slots.
  static constexpr std::size_t region_slots = 16;
  std::size_t region_of(Address address) const { return slot_of(address) / region_slots; }
  void note_idle(const Extent* extent) {
    note(idle_, extent);
    if (extent->state == Extent::State::hole) note(seams_, extent);
  }
  static bool is_end(const Extent* extent) {  // the hole at the arena's end
    return extent != nullptr && extent->next == nullptr && extent->state == Extent::State::hole;
  }
  static bool is_joint(const Extent* extent) {
    return extent->state == Extent::State::free && extent->previous != nullptr &&
           extent->previous->state == Extent::State::free;
  }
  static bool is_seam(const Extent* extent) { return extent->state == Extent::State::hole || is_joint(extent); }
  // A bit per region: may such an extent begin in it? Set when one does, cleared by who looks and finds none.
  using Regions = std::vector<std::uint64_t>;
  void note(Regions& regions, const Extent* extent) {
    const std::size_t region = region_of(extent->address);
    regions[region / word_bits] |= bit(region);
  }
  static std::size_t next_region(const Regions& regions, std::size_t region);  // from this one on
  Extent* first_in_region(std::size_t region) const;
  template <typename Wanted>
  const Extent* search(Regions& regions, const Extent* extent, Wanted wanted) const;
  void drop(Extent* extent) {
    unlink(extent);
    store_.drop(extent);
  }
  void link_after(Extent* extent, Extent* before);
  void unlink(Extent* extent);
  Extent* split(Extent* extent, Bytes size);  // keeps the front, returns the rest
  // May an extent be joined with a neighbour once it has this state?
  static bool joins(const Extent* neighbour, Extent::State state, Lane owner) {
    if (neighbour == nullptr || neighbour->state != state) return false;
    return state == Extent::State::free ? neighbour->owner == owner
                                        : state == Extent::State::hole || state == Extent::State::dying;
  }
  void join_next(Extent* extent, Extent::State state);
  Extent* join_previous(Extent* extent, Extent::State state);
  // Gives the extent, which is in no index, a new state and joins it with its neighbours. It keeps its old state until
  // it is complete, so that no index sees a part of it.
  void become(Extent* extent, Extent::State state) {
    if (joins(extent->next, state, extent->owner)) join_next(extent, state);
    if (joins(extent->previous, state, extent->owner)) extent = join_previous(extent, state);
    extent->state = state;
    note_idle(extent);
    if (state == Extent::State::hole || (extent->previous != nullptr && extent->previous->idle()) ||
        (extent->next != nullptr && extent->next->idle() && !is_end(extent->next)))
      longest_gap_ = unknown;
    if (state != Extent::State::free) return;
    list(extent);
    if (several_owners()) note_joints(extent);
  }
  void note_joints(const Extent* extent) {
    for (const Extent* either : {extent, static_cast<const Extent*>(extent->next)})
      if (either != nullptr && is_joint(either)) {
        note(joints_, either);
        note(seams_, either);
      }
  }
  [[gnu::always_inline]] void list(Extent* extent) {  // enters a free extent into its owner's index
    if (extent->size < large)
      index(extent->owner).bins.insert_by_address(extent, extent->size / unit);
    else
      list_large(extent);
  }
  [[gnu::always_inline]] void unlist(Extent* extent) {
    if (extent->size < large)
      index_[extent->owner]->bins.erase(extent, extent->size / unit);
    else
      index_[extent->owner]->lowest.erase(cell_of(extent->address));
  }
  struct Index {  // the free extents of a lane
    Index();
    Bins<Extent> bins;  // those below `large`, by size
    FirstFit lowest;    // the others, by cell
  };
  static constexpr Bytes large = Bytes{32} << 20;
  Index& index(Lane owner) { return index_[owner] != nullptr ? *index_[owner] : make_index(owner); }
  Index& make_index(Lane owner);
  std::size_t cell_of(Address address) const { return (address - range_) / large; }
  Extent* fit_large(Index& index, Bytes size) const;
  void take_front(Extent* free, Bytes size, Extent::State state);
  void list_large(Extent* extent) {
    const std::size_t cell = cell_of(extent->address);
    cells_[cell] = extent;
    index(extent->owner).lowest.insert(cell, indexed(extent->size));
  }
  static constexpr Bytes largest_indexed = unit * INT32_MAX;  // just below 1 TiB; what is larger is not looked up
  static FirstFit::Size indexed(Bytes size) {                 // as the index of large extents counts it
    return static_cast<FirstFit::Size>(std::min(size, largest_indexed) / unit);
  }
  static constexpr Bytes first_reach = 1024;  // pages, at once: hardly a program stays below 2 GiB
  void reach(Address end);                    // makes the page tables long enough
  Address range_;
  Bytes size_;
  Extent* first_extent_ = nullptr;
  Extent* last_extent_ = nullptr;
  std::vector<Extent*> starts_;          // per slot: the first extent that begins in it
  std::vector<std::uint64_t> occupied_;  // a bit per slot: does any extent begin in it?
  static constexpr Bytes unknown = std::numeric_limits<Bytes>::max();
  Bytes longest_gap_ = unknown;
  mutable Regions idle_;
  mutable Regions seams_;
  mutable Regions joints_;
  std::vector<Chunk*> chunks_;  // per page: the chunk at home there
  std::array<std::unique_ptr<Index>, lane_count> index_;
  int owners_ = 0;              // lanes that have an index
  std::vector<Extent*> cells_;  // per 32 MiB: the large free extent that begins there, of which there can be one only
  Store<Extent> store_;
  Address top_;
};

}  // namespace gmlake
