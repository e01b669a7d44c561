// Small blocks: slabs of one page, split in units of 512 bytes. Each stream has slabs of its own, so that reuse never
// needs a fence. A slab whose blocks are all free goes back.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "pool/bins.h"
#include "pool/slabs.h"

namespace gmlake {

class SmallPool {
 public:
  struct Slab;
  struct alignas(32) Block {  // two to a cache line
    Slab* slab;
    std::uint16_t place;   // in units from the slab's start
    std::uint16_t size;    // in units
    std::uint16_t before;  // size of the block before, in units; 0: the first
    bool live;
    bool limbo;
    struct Use {
      LaneSet lanes;            // further ones it was used on
      std::uint32_t requested;  // bytes the client asked for
    };
    union {
      Block* bin_previous;
      Use use;  // live
    };
    Block* bin_next;

    Address address() const;
    Bytes bytes() const { return size * unit; }
  };

  SmallPool(Supply& supply, Slabs& slabs) : supply_(supply), slabs_(slabs) {}

  Address allocate(Bytes size, Bytes requested, Stream stream);  // 0: no room
  // The same at an address in a slab of this stream, or in one that no stream has. False: it is not free.
  bool allocate_at(Address at, Bytes size, Bytes requested, Stream stream);
  Block* find(Address address) const;  // in the client's hands, or nullptr
  void free(Block* block);
  Lane lane(const Block* block) const;
  Stream stream(const Block* block) const;
  bool empty() const;
  bool one_stream() const { return by_stream_.size() <= 1; }  // never had another
  void trim();                                                // gives slabs back that are kept though empty

  template <typename Visit>
  void each_slab(Visit visit) const {
    for (const auto& slab : slab_at_)
      if (slab != nullptr) visit(*slab);
  }
  void check() const;

 private:
  struct Shelf;  // the free blocks of one stream
  Shelf& shelf(Stream stream);
  Shelf& look_up(Stream stream);
  std::size_t page_of(Address address) const { return (address - slabs_.range()) / page_size; }
  bool add_slab(Shelf& shelf);
  void put_slab(Shelf& shelf, Address page);
  Block* split(Block* block, std::size_t units);  // keeps the front, returns the rest; neither is in a bin
  Address hand_out(Block* block, Bytes requested);
  void list(Block* block);
  void unlist(Block* block);
  void give_back(Slab& slab);

  Supply& supply_;
  Slabs& slabs_;
  std::unordered_map<Stream, std::unique_ptr<Shelf>> by_stream_;
  std::vector<std::unique_ptr<Slab>> slab_at_;  // by page of the slabs' range
  std::vector<std::unique_ptr<Slab>> spare_;    // without a page
  std::size_t slab_count_ = 0;
  Shelf* last_ = nullptr;
};

struct SmallPool::Shelf {
  Stream stream = 0;
  Lane lane = 0;
  Bins<Block> free;
};

// The table of a slab is large, and few of its entries are used: it is never cleared, and `begins` tells which are
// valid.
struct SmallPool::Slab {
  explicit Slab(std::size_t units);
  Address address = 0;
  Shelf* shelf = nullptr;
  std::size_t live = 0;
  const std::size_t units;
  std::unique_ptr<Block[]> blocks;    // one per unit, where a block begins
  std::vector<std::uint64_t> begins;  // a bit per unit: does one?

  bool has_block(std::size_t place) const { return (begins[place / 64] >> place % 64 & 1) != 0; }
  Block* add_block(std::size_t place, std::size_t size, std::size_t before) {  // free, in no bin
    begins[place / 64] |= std::uint64_t{1} << place % 64;
    Block& block = blocks[place];
    block.slab = this;
    block.place = static_cast<std::uint16_t>(place);
    block.size = static_cast<std::uint16_t>(size);
    block.before = static_cast<std::uint16_t>(before);
    block.live = block.limbo = false;
    return &block;
  }
  void drop_block(std::size_t place) { begins[place / 64] &= ~(std::uint64_t{1} << place % 64); }
};

inline SmallPool::Shelf& SmallPool::shelf(Stream stream) {
  return last_ != nullptr && last_->stream == stream ? *last_ : look_up(stream);
}
inline Address SmallPool::Block::address() const {
  return slab->address + place * unit;
}
inline Lane SmallPool::lane(const Block* block) const {
  return block->slab->shelf->lane;
}
inline Stream SmallPool::stream(const Block* block) const {
  return block->slab->shelf->stream;
}
inline SmallPool::Block* SmallPool::find(Address address) const {
  const std::size_t page = page_of(address);
  if (page >= slab_at_.size() || slab_at_[page] == nullptr || address % unit != 0) return nullptr;
  const Slab& slab = *slab_at_[page];
  const std::size_t place = (address - slab.address) / unit;
  Block* block = &slab.blocks[place];
  return slab.has_block(place) && block->live && !block->limbo ? block : nullptr;
}
[[gnu::always_inline]] inline void SmallPool::list(Block* block) {
  block->slab->shelf->free.insert(block, block->size);
}
[[gnu::always_inline]] inline void SmallPool::unlist(Block* block) {
  block->slab->shelf->free.erase(block, block->size);
}

}  // namespace gmlake
