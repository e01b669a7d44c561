// The published GMLake's memory: segments made of 2 MiB chunks, which are its pBlocks' memory, and sBlocks, which map
// chunks of several pBlocks a second time in one run of addresses. What is mapped where, and nothing about choosing.
#pragma once

#include <vector>

#include "baselines/caching_block.h"

namespace gmlake {

// A range with a chunk behind every part of it; pBlocks are its blocks.
struct ChunkSegment final : Segment {
  ChunkSegment(Address range, Bytes range_size, Bytes chunk_size, std::vector<Handle> its_chunks, Stream its_stream,
               BlockPool& its_pool)
      : Segment(range, range_size, its_stream, its_pool),
        chunk(chunk_size),
        chunks(std::move(its_chunks)),
        busy(chunks.size()) {}

  Status give_back(Driver& driver) override;
  void mark(const Block* block, bool in_use);

  Bytes chunk;
  std::vector<Handle> chunks;
  std::vector<bool> busy;
};

// That of a pBlock.
inline ChunkSegment& segment_of(const Block* block) {
  return static_cast<ChunkSegment&>(*block->segment);
}

// Chunks one after the other in one segment.
struct ChunkRun {
  ChunkSegment* segment = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
};

// A stitched block. As a Block it is what the client has in hand: `size` is what was asked for, a prefix of `capacity`.
struct StitchedBlock : Block {
  Bytes capacity = 0;
  std::vector<ChunkRun> runs;
  std::vector<Block*> lenders;  // the pBlocks in use through it
  Event last_use = 0;           // recorded when it was last released; 0 if that could not be
  std::uint64_t released = 0;   // when, in releases
  ChunkRun blocker;             // a chunk that was busy at the last look; without a segment if there was none
  Bytes mapped = 0;             // less than capacity once chunks at its end were given back; it is not used again then

  bool whole() const { return mapped == capacity; }
  bool available();  // all of its chunks are free
};

struct ByCapacity {
  bool operator()(const StitchedBlock* a, const StitchedBlock* b) const {
    if (a->pool != b->pool) return a->pool->id < b->pool->id;
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->capacity != b->capacity) return a->capacity < b->capacity;
    return a->address < b->address;
  }
};

// Both map chunks of this size into a new range, and leave nothing behind on failure.
Status create_chunks(Driver& driver, Bytes size, Bytes chunk, Address& range, std::vector<Handle>& chunks);
Status map_again(Driver& driver, const std::vector<ChunkRun>& runs, Bytes chunk, Address& range);

}  // namespace gmlake
