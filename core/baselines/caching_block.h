// Blocks, the segments they are cut from and the pools their free ones wait in: the data of PyTorch's caching
// allocator, in the containers it uses itself. Nothing here asks the driver for anything.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "base/vocabulary.h"
#include "driver/driver.h"
#include "watch/statistics.h"

namespace gmlake {

struct BlockPool;
struct Segment;

// A span of a segment. A block that is not allocated may still wait for events of other streams.
struct Block {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  Stream stream = 0;
  std::uint64_t registration = 0;  // of its segment; 0 where addresses alone decide ties
  BlockPool* pool = nullptr;
  Segment* segment = nullptr;
  Block* prev = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  std::uint64_t born = 0;  // the pool's searches when it became free
  int events = 0;          // outstanding ones
  bool allocated = false;
  bool mapped = true;           // memory stands behind it; always so outside expandable segments
  bool lent = false;            // handed out under another address
  bool stitched = false;        // not a span of a segment at all, but an address for others that are lent
  std::vector<Stream> used_on;  // streams other than its own

  bool split() const { return prev != nullptr || next != nullptr; }
  bool free() const { return !allocated && !lent && events == 0 && used_on.empty(); }
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    if (a->registration != b->registration) return a->registration < b->registration;
    return a->address < b->address;
  }
};

struct ByAddress {
  bool operator()(const Block* a, const Block* b) const {
    return a->stream != b->stream ? a->stream < b->stream : a->address < b->address;
  }
};

struct BlockPool {
  BlockPool(PoolKind its_kind, PoolId its_id) : kind(its_kind), id(its_id) {}

  PoolKind kind;
  PoolId id;
  std::set<Block*, BySize> blocks;       // free ones
  std::set<Block*, ByAddress> unmapped;  // addresses of expandable segments without memory
  std::uint64_t searches = 0;            // counted only while garbage is collected
  std::size_t segments = 0;

  void insert(Block* block) {
    block->born = searches;
    blocks.insert(block);
  }
  std::uint64_t age(const Block* block) const { return searches - block->born; }
};

struct PoolPair {
  explicit PoolPair(PoolId id) : small(PoolKind::small, id), large(PoolKind::large, id) {}
  BlockPool small, large;
};

// One allocation of the driver. Derived kinds own their memory in other ways.
struct Segment {
  Segment(Address its_address, Bytes its_size, Stream its_stream, BlockPool& its_pool)
      : address(its_address), size(its_size), stream(its_stream), pool(its_pool) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  virtual ~Segment();  // deletes its blocks; the memory must have been given back

  virtual bool expandable() const { return false; }
  virtual Status give_back(Driver& driver) { return driver.free(address); }

  Address address;
  Bytes size;
  Stream stream;
  BlockPool& pool;
  Block* first = nullptr;
};

// Makes the one block that covers a new segment.
Block* cover(Segment& segment, std::uint64_t registration);

// Cuts a block after `size` bytes and returns the rest, which is free and in no pool.
Block* cut(Block* block, Bytes size);

// Joins src to its neighbour dst if both are free (dst is about to be) and both mapped or both not; returns the bytes
// gained, 0 if it may not. src leaves its pool and is deleted.
Bytes join(Block* dst, Block* src);

}  // namespace gmlake
