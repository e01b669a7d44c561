#include "baselines/caching_block.h"

namespace gmlake {

Segment::~Segment() {
  for (Block* block = first; block != nullptr;) {
    Block* next = block->next;
    delete block;
    block = next;
  }
}

Block* cover(Segment& segment, std::uint64_t registration) {
  auto* block = new Block{.address = segment.address,
                          .size = segment.size,
                          .stream = segment.stream,
                          .registration = registration,
                          .pool = &segment.pool,
                          .segment = &segment,
                          .used_on = {}};
  segment.first = block;
  return block;
}

Block* cut(Block* block, Bytes size) {
  auto* rest = new Block{.address = block->address + size,
                         .size = block->size - size,
                         .stream = block->stream,
                         .registration = block->registration,
                         .pool = block->pool,
                         .segment = block->segment,
                         .prev = block,
                         .next = block->next,
                         .mapped = block->mapped,
                         .used_on = {}};
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  return rest;
}

Bytes join(Block* dst, Block* src) {
  if (src == nullptr || !src->free() || src->mapped != dst->mapped) return 0;
  if (src->mapped)
    src->pool->blocks.erase(src);
  else
    src->pool->unmapped.erase(src);
  if (dst->prev == src) {
    dst->address = src->address;
    dst->prev = src->prev;
    if (dst->prev != nullptr)
      dst->prev->next = dst;
    else
      dst->segment->first = dst;
  } else {
    dst->next = src->next;
    if (dst->next != nullptr) dst->next->prev = dst;
  }
  const Bytes gained = src->size;
  dst->size += gained;
  delete src;
  return gained;
}

}  // namespace gmlake
