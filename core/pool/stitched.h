// The cache of sBlocks: contiguous runs of addresses over chunks that keep their home elsewhere. An sBlock is made
// once, in a program that repeats itself, and is there for every later step without a driver call. It owns addresses
// only: it may be used while all of its chunks are free at home, and then lends them; those that are not can be
// replaced. When the mappings exceed the address budget, the least recently used idle ones go (StitchFree).
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "pool/arena.h"
#include "pool/retire.h"
#include "pool/supply.h"

namespace gmlake {

struct SBlock {
  Address address = 0;
  Bytes size = 0;       // of the mappings
  Bytes serves = 0;     // the request it was made for
  Bytes requested = 0;  // by the client that has it now
  std::vector<Chunk*> chunks;
  std::vector<Extent*> lent;       // the chunks' homes, neighbours at once, while it is active
  std::uint64_t last_request = 0;  // that it served, by its number
  Clock clock;                     // of its last uses
  Lane user = 0;
  LaneSet uses = 0;
  bool active = false;
  bool limbo = false;
};

class Stitched {
 public:
  Stitched(Supply& supply, Arena& arena);
  ~Stitched();  // the device must be idle

  SBlock* find(Bytes request) const;  // one for exactly this request that is idle and whose chunks are free, or nullptr
  // Is the block idle, and are its chunks free? Merges their clocks into `clock`.
  bool usable(const SBlock* block, Clock& clock) const;
  // Maps the chunks, all of them free, in one run. nullptr: the driver refused, nothing changed.
  SBlock* make(Bytes request, std::vector<Chunk*> chunks);

  // Replaces the chunks of an idle block that are in use elsewhere by others, all of them free, if that is no more than
  // half of it. Nothing may use its addresses any more. False: that cannot be done, or the driver refused, after which
  // the block may be gone.
  bool mend(SBlock* block, std::vector<Chunk*> others);

  // Takes the chunks out of the arena's free space, for the request of this number.
  void activate(SBlock* block, Lane user, std::uint64_t request);
  void deactivate(SBlock* block, const Clock& clock);  // gives them back

  SBlock* at(Address address) const;
  const std::unordered_map<Address, std::unique_ptr<SBlock>>& all() const { return by_address_; }

  void keep_budget(const SBlock* except);  // StitchFree
  void drop_idle();
  bool settle(bool wait) { return retirement_.settle(wait); }
  bool settled() const { return retirement_.all_unmapped(); }  // no chunk is mapped where a block was

  void check() const;

 private:
  template <typename Visit>
  static bool each_home(const SBlock* block, Visit visit);
  struct Patch {  // a run of a block's chunks that others replace
    std::size_t first;
    std::size_t count;
    Address at;
    Bytes size;
    std::vector<Chunk*> others;
  };
  std::vector<Patch> in_use(const SBlock* block) const;
  bool replace(SBlock* block, const Patch& patch);
  bool idle(const SBlock* block) const;
  bool drop(std::span<SBlock* const> blocks);
  void forget(const SBlock* block);

  Supply& supply_;
  Arena& arena_;
  std::unordered_map<Address, std::unique_ptr<SBlock>> by_address_;
  std::unordered_multimap<Bytes, SBlock*> by_request_;
  Retirement retirement_;
  Bytes mapped_ = 0;
};

}  // namespace gmlake
