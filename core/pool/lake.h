// Large blocks: one arena for all streams, and the ways to find room in it, from free of charge to expensive:
//
//   again     the place that the request had at the same point of an earlier step      (S1: no driver call)
//   own       free space of the stream's lane, as the arena prefers it                 (S1, S2)
//   known     an sBlock that was stitched for this size before                         (S1)
//   borrow    the free space of another lane, or of several side by side, if their work has surely finished
//   grow      create what is missing, while reserved stays near peak active
//   fence     the free space of other lanes, behind a fence
//   mend      the request had an sBlock: replace those of its chunks that are in use   (S3)
//   alias     the program repeats itself: stitch free chunks into an sBlock            (S3)
//   re-home   move free chunks to where the run is nearly complete, create the rest    (S3, S4)
//
// Where memory is scarce or the target was missed, chunks are cut to measure before a free place is taken
// (lake_cut.cpp).
//
// A private lake (CUDA graphs) only knows its own free space and how to grow: captured work holds on to addresses, so
// nothing in it moves. Running out (S5) is the allocator's business: allocate just returns nothing.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "pool/arena.h"
#include "pool/recall.h"
#include "pool/retire.h"
#include "pool/stitched.h"
#include "pool/supply.h"
#include "pool/window.h"

namespace gmlake {

class Lake {
 public:
  Lake(Supply& supply, PoolId pool, Address range, Bytes size);
  ~Lake();  // gives everything back, whoever has it: the device must be idle

  Address allocate(Bytes size, Bytes requested, Stream stream);  // 0: no room
  // The same for a request that found no room a moment ago: the program has made it once.
  Address allocate_again(Bytes size, Bytes requested, Stream stream) {
    return serve({size, requested, stream, supply_.fences.lane(stream)}, shared_ ? recall_->place() : 0);
  }
  // The same at an address where the pool has memory; the caller knows that nobody uses it. False: it is not free.
  bool allocate_at(Address at, Bytes size, Bytes requested, Stream stream);

  // A block in the client's hands: one of the two, or neither when the address was never handed out.
  struct Block {
    Extent* extent = nullptr;
    SBlock* stitched = nullptr;
    explicit operator bool() const { return extent != nullptr || stitched != nullptr; }
  };
  Block find(Address address) const;
  static Bytes size(Block block);
  void free(Block block, Bytes size, const Clock& clock);

  // The same for the blocks that are nearly all: of a single extent, and used by their own stream alone.
  Extent* find_plain(Address address) const {
    if (!arena_.contains(address)) return nullptr;
    Extent* extent = arena_.starting_at(address);
    const bool plain = extent != nullptr && extent->state == Extent::State::live && !extent->joined &&
                       extent->uses == 0 && !(extent->previous != nullptr && extent->previous->joined);
    return plain ? extent : nullptr;
  }
  void free_plain(Extent* extent) {
    active_ -= extent->size;
    supply_.fences.stamp(extent->clock, extent->user);
    arena_.give_back_one(extent);
  }
  bool empty() const { return active_ == 0; }
  bool vacant() const { return empty() && !arena_.any_free() && retirement_.empty(); }  // holds no memory

  const Arena& arena() const { return arena_; }
  const Stitched& stitched() const { return stitched_; }

  // Old addresses whose work has finished are unmapped. With `wait`, waits for the work. False: something is left.
  bool settle(bool wait);
  // Gives free chunks back to the driver until at least `enough` bytes are. Waits for all work first, because it may
  // still use them. False: that could not be done, and nothing was given back.
  bool trim(Bytes enough);
  // A free chunk of one page moves out, for a slab. The stream waits for its last uses. nullptr: there is none.
  Chunk* lend_page(Address to, Stream stream);

  // Free space beside blocks that are in use, which therefore cannot be given back.
  struct Splinters {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
  };
  Splinters splinters() const;

  void check() const;

 private:
  struct Request {
    Bytes size;
    Bytes requested;  // by the client, before it was rounded
    Stream stream;
    Lane lane;  // of the stream
  };
  struct Donor {
    Chunk* chunk;
    Bytes left;  // of the free run it lies in, bytes in chunks that are partly in use, which cannot move
  };
  struct Place {  // a window and the gap it lies in
    Gap gap;
    Window window;
  };
  struct Move {  // chunks that go where a run of addresses becomes complete
    Address at;
    std::vector<Chunk*> donors;
    std::vector<Placement> pieces;
  };
  // Are sBlocks found again? Beyond the first 200, or one for two requests of a step, at least two must have been for
  // each one that is made: a program whose layout differs in every step would make them for nothing, and each maps all
  // that it serves. What another program made before, or this one in another phase, does not count.
  bool aliasing_pays() {
    if (recall_->changes() != phase_) {
      phase_ = recall_->changes();
      aliased_ = reused_ = 0;
    }
    return aliased_ < std::max<std::int64_t>(200, static_cast<std::int64_t>(recall_->step() / 2)) + reused_ / 2;
  }
  // What free space a window may use: what can be used at once; the lane's own besides, behind a fence; anybody's.
  enum class Mixing : std::uint8_t { settled, own, any };
  static constexpr Address anywhere = std::numeric_limits<Address>::max();

  Address serve(const Request& request, Address place);
  Address find_room(const Request& request, Address place);
  Address make_room(const Request& request, Extent* own, Address place);
  // Ways to hand out what was found. An extent and an address are free, settled and large enough.
  Address take(Extent* free, const Request& request) {
    return hand_out(arena_.take(free, request.size, Extent::State::live, request.lane), request);
  }
  Address take(Address at, const Request& request) {
    return hand_out(arena_.take(at, request.size, Extent::State::live, request.lane), request);
  }
  static Address hand_out(Extent* block, const Request& request) {
    block->requested = request.requested;
    return block->address;
  }
  Address take_fenced(Address at, const Request& request);
  Address try_take(Address place, const Request& request);
  Address take_known(SBlock* block, const Request& request);
  Extent* borrow(const Request& request, bool settled) const;
  bool may_use(const Extent* extent, Lane lane, Mixing mixing) const;
  const Extent* lowest_run(const Request& request, Mixing mixing, Address below = anywhere) const;
  const Extent* lowest_settled(const Request& request) const;
  // Calls visit(gap) for the gaps that are large enough and lack no more memory than `lack`, at least where they lack
  // least, from the lowest on until it returns false.
  template <typename Visit>
  void each_gap(const Request& request, Bytes lack, Mixing mixing, Visit visit);
  bool best_place(const Request& request, Bytes lack, Mixing mixing, Place& best);  // false: there is none
  std::vector<Place> places(const Request& request);  // the best of every gap, those that lack least first
  std::vector<Donor> donors(Bytes& splinters) const;  // free beside them, in chunks that are partly in use
  std::vector<Donor> donors();                        // and notes whether much is lost in that way
  std::vector<Chunk*> lowest_free();                  // the same chunks, by address
  // A cut costs two new chunks, and there is one more to map whenever they move: where memory is scarce one in sixteen
  // is cut at most. One in four where the target was missed, or where much is lost already and chunks move, because few
  // programs come to that. And not for blocks that fill a gap anyway.
  bool may_cut(Bytes size) const {
    if (!supply_.tight && !supply_.beyond_target) [[likely]]
      return false;
    if (!shared_ || size < 8 * MiB) return false;
    if (much_is_lost()) return are_few(cuts_ / 4) && are_few(cuts_ - 2 * moved_);
    return supply_.scarce ? are_few(cuts_) : supply_.beyond_target && are_few(early_cuts_ / 4);
  }
  bool much_is_lost() const { return splintered_ && supply_.tight; }
  bool are_few(std::int64_t cuts) const { return 16 * cuts < supply_.statistics.segment.all().current; }
  void cut_to_measure(Address place, const Request& request);
  void cut_edges(Address at, Bytes size);
  void cut(Chunk* chunk, Address low, Address high);
  bool finished(const Clock& clock);
  Address grow(const Request& request);
  Address plan_growth(const Request& request, Bytes lack, Mixing mixing);
  Address mend(Address place, const Request& request);
  Address alias(const Request& request);
  std::optional<Move> plan(const Request& request, Bytes fresh);
  Address rehome(const Move& move, const Request& request);
  bool bring(std::span<const Placement> plan, std::span<Chunk* const> donors);
  bool provide(const Placement& place, std::span<Chunk* const> donors);
  void settle_in(std::span<const Placement> plan, Lane lane, const Clock& clock);
  void note_mapped(JournalEntry::Action action, Stream stream);

  Supply& supply_;
  const PoolId pool_;
  const bool shared_;  // the ordinary pool's, whose memory moves
  Arena arena_;
  Stitched stitched_;
  Retirement retirement_;
  std::optional<Recall> recall_;  // of the ordinary pool
  Recall::Number phase_ = 0;      // of the program, to which the next two belong
  std::int64_t aliased_ = 0;      // sBlocks that were made
  std::int64_t reused_ = 0;       // requests that were served by one
  bool splintered_ = false;       // a part of the memory that counts was free in chunks that are partly in use
  std::int64_t cuts_ = 0;         // chunks that were cut in two because memory was scarce
  std::int64_t moved_ = 0;        // chunks that went elsewhere, or got a second address
  std::int64_t early_cuts_ = 0;   // because more was reserved than the target allows
  std::int64_t delays_ = 0;       // chunks that were not, because they might have been in use
  Bytes active_ = 0;

  // What a step of growing or moving works with: kept, because to allocate it anew would cost more than the step.
  struct Workbench {
    Gap gap;
    Place place;
    std::vector<Void> voids;
    std::vector<Placement> plan;
    std::vector<Chunk*> chunks;  // of the plan
    std::vector<Span> mapped;
  };
  Workbench bench_;
};

inline Address Lake::allocate(Bytes size, Bytes requested, Stream stream) {
  const Lane lane = supply_.fences.lane(stream);
  const Address place = shared_ ? recall_->next(size, supply_.tally.allocated_large(), lane) : 0;
  return serve({size, requested, stream, lane}, place);
}

// `place` is where the request may have been served in an earlier step.
[[gnu::always_inline]] inline Address Lake::serve(const Request& request, Address place) {
  const Address at = find_room(request, place);
  if (at == 0) [[unlikely]]
    return 0;
  if (shared_) recall_->note(at);
  active_ += request.size;
  return at;
}

inline Address Lake::find_room(const Request& request, Address place) {
  const auto& [size, requested, stream, lane] = request;
  if (may_cut(size)) [[unlikely]]
    cut_to_measure(place, request);
  if (place != 0)
    if (const Address at = try_take(place, request); at != 0) return at;
  Extent* own = arena_.fit(lane, size);
  if (own != nullptr && supply_.fences.settled(own->clock, lane)) [[likely]]
    return take(own, request);
  return make_room(request, own, place);
}

}  // namespace gmlake
