// Small blocks: slabs of one page, split in units of 512 bytes. Each stream has slabs of its own, so that reuse never
// needs a fence. Free blocks hang in a bin for exactly their size; the best fit is the first bin that is not empty, found
// by a bitmap in constant time. A slab whose blocks are all free goes back.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "pool/slabs.h"

namespace gmlake {

class SmallPool {
 public:
  static constexpr Bytes unit = 512;

  struct Slab;
  struct Block {
    Slab* slab = nullptr;
    std::uint16_t place = 0;   // in units from the slab's start
    std::uint16_t size = 0;    // in units; 0: no block begins here
    std::uint16_t before = 0;  // size of the block before, in units; 0: the first
    bool live = false;
    bool limbo = false;
    std::uint32_t uses = 0;       // live: further lanes it was used on, a bit each
    std::uint32_t requested = 0;  // live: bytes the client asked for
    Block* previous = nullptr;    // in the bin
    Block* next = nullptr;

    Address address() const;
    Bytes bytes() const { return size * unit; }
  };

  SmallPool(Supply& supply, Slabs& slabs) : supply_(supply), slabs_(slabs) {}

  Address allocate(Bytes size, Bytes requested, Stream stream);  // 0: no room
  Block* find(Address address) const;                            // in the client's hands, or nullptr
  void free(Block* block);
  Lane lane(const Block* block) const;
  Stream stream(const Block* block) const;
  bool empty() const;
  void trim();  // gives slabs back that are kept though empty

  template <typename Visit>
  void each_slab(Visit visit) const {
    for (const auto& slab : slab_at_)
      if (slab != nullptr) visit(*slab);
  }
  void check() const;

 private:
  struct Bins;
  Bins& bins(Stream stream);
  bool add_slab(Bins& bins);
  void list(Block* block);
  void unlist(Block* block);
  void give_back(Slab& slab);

  Supply& supply_;
  Slabs& slabs_;
  std::unordered_map<Stream, std::unique_ptr<Bins>> by_stream_;
  std::vector<std::unique_ptr<Slab>> slab_at_;  // by page of the slabs' range
  std::size_t slab_count_ = 0;
  Bins* last_ = nullptr;

 public:
  ~SmallPool();
};

// The free blocks of one stream by size.
struct SmallPool::Bins {
  static constexpr std::size_t words = 65;  // of 64 sizes each, up to a page of 4096 units

  Stream stream = 0;
  Lane lane = 0;
  std::array<Block*, words * 64> head{};
  std::array<std::uint64_t, words> filled{};
  std::uint64_t filled_words = 0;  // words 0 to 63; the last word only knows whole pages
};

struct SmallPool::Slab {
  Address address = 0;
  Bins* bins = nullptr;
  std::vector<Block> blocks;  // one per unit, used where a block begins
  std::size_t live = 0;
};

inline Address SmallPool::Block::address() const { return slab->address + place * unit; }
inline Lane SmallPool::lane(const Block* block) const { return block->slab->bins->lane; }
inline Stream SmallPool::stream(const Block* block) const { return block->slab->bins->stream; }

}  // namespace gmlake
