#include "pool/small.h"

#include <bit>
#include <string>

#include "base/error.h"

namespace gmlake {

SmallPool::Shelf& SmallPool::look_up(Stream stream) {
  auto& entry = by_stream_[stream];
  if (entry == nullptr) entry.reset(new Shelf{stream, supply_.fences.lane(stream), Bins<Block>(page_size / unit + 1)});
  last_ = entry.get();
  return *last_;
}

Address SmallPool::allocate(Bytes size, Bytes requested, Stream stream) {
  (void)supply_.fences.lane(stream);  // heard of again: its handle may have been another stream's
  Shelf& shelf = this->shelf(stream);
  const std::size_t units = size / unit;
  Block* block = shelf.free.best_fit(units);
  if (block == nullptr) {
    if (!add_slab(shelf)) return 0;
    block = shelf.free.best_fit(units);
  }
  unlist(block);
  if (block->size > units) list(split(block, units));
  return hand_out(block, requested);
}

bool SmallPool::allocate_at(Address at, Bytes size, Bytes requested, Stream stream) {
  const std::size_t page = page_of(at);
  if (page >= slab_at_.size() || slab_at_[page] == nullptr) {
    if (!slabs_.take_at(slabs_.range() + page * page_size)) return false;
    put_slab(shelf(stream), slabs_.range() + page * page_size);
  }
  Slab& slab = *slab_at_[page];
  const std::size_t place = (at - slab.address) / unit;
  const std::size_t end = place + size / unit;
  Block* block = slab.blocks.get();
  while (block->place + block->size <= place) block = &slab.blocks[block->place + block->size];
  if (block->live || block->place + block->size < end || slab.shelf->stream != stream) return false;
  unlist(block);
  if (block->place < place) {
    Block* const rest = split(block, place - block->place);
    list(block);
    block = rest;
  }
  if (block->place + block->size > end) list(split(block, end - place));
  (void)hand_out(block, requested);
  return true;
}

SmallPool::Block* SmallPool::split(Block* block, std::size_t units) {
  Slab& slab = *block->slab;
  Block* rest = slab.add_block(block->place + units, block->size - units, units);
  block->size = static_cast<std::uint16_t>(units);
  if (const std::size_t end = rest->place + rest->size; end < slab.units) slab.blocks[end].before = rest->size;
  return rest;
}

Address SmallPool::hand_out(Block* block, Bytes requested) {
  block->live = true;
  block->use = {.lanes = 0, .requested = static_cast<std::uint32_t>(requested)};
  ++block->slab->live;
  return block->address();
}

void SmallPool::free(Block* block) {
  Slab& slab = *block->slab;
  block->live = block->limbo = false;
  --slab.live;
  const std::size_t end = block->place + block->size;
  if (end < slab.units && !slab.blocks[end].live) {
    Block& after = slab.blocks[end];
    unlist(&after);
    block->size += after.size;
    slab.drop_block(end);
  }
  if (block->before != 0 && !slab.blocks[block->place - block->before].live) {
    Block& before = slab.blocks[block->place - block->before];
    unlist(&before);
    before.size += block->size;
    slab.drop_block(block->place);
    block = &before;
  }
  if (const std::size_t next = block->place + block->size; next < slab.units) slab.blocks[next].before = block->size;
  list(block);
  if (slab.live == 0 && slab_count_ > by_stream_.size()) give_back(slab);  // every stream may keep one
}

// The slab is one free block again, and its table is kept as it is for the next one.
void SmallPool::give_back(Slab& slab) {
  unlist(slab.blocks.get());
  slabs_.give_back(slab.address, supply_.fences.now(slab.shelf->lane));
  --slab_count_;
  spare_.push_back(std::move(slab_at_[page_of(slab.address)]));
}

bool SmallPool::empty() const {
  bool live = false;
  each_slab([&](const Slab& slab) { live = live || slab.live > 0; });
  return !live;
}

void SmallPool::trim() {
  for (auto& slab : slab_at_)
    if (slab != nullptr && slab->live == 0) give_back(*slab);
}

bool SmallPool::add_slab(Shelf& shelf) {
  const Address address = slabs_.take(shelf.stream);
  if (address == 0) return false;
  put_slab(shelf, address);
  return true;
}

void SmallPool::put_slab(Shelf& shelf, Address address) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Slab>(page_size / unit));
  std::unique_ptr<Slab> slab = std::move(spare_.back());
  spare_.pop_back();
  slab->address = address;
  slab->shelf = &shelf;
  list(slab->blocks.get());
  const std::size_t page = page_of(address);
  if (page >= slab_at_.size()) slab_at_.resize(page + 1);
  slab_at_[page] = std::move(slab);
  ++slab_count_;
}

SmallPool::Slab::Slab(std::size_t count)
    : units(count), blocks(std::make_unique_for_overwrite<Block[]>(count)), begins((count + 63) / 64) {
  add_block(0, units, 0);
}

void SmallPool::check() const {
  each_slab([](const Slab& slab) {
    auto fail = [&](const std::string& what) {
      throw BrokenInvariant("slab at address " + std::to_string(slab.address) + ": " + what);
    };
    std::size_t live = 0;
    std::uint16_t before = 0;
    bool was_free = false;
    std::size_t place = 0;
    std::size_t blocks = 0;
    while (place < slab.units) {
      const Block& block = slab.blocks[place];
      if (!slab.has_block(place) || block.size == 0 || block.before != before) fail("blocks do not tile it");
      if (was_free && !block.live) fail("free neighbours were not joined");
      if (!block.live && !slab.shelf->free.contains(&block, block.size)) fail("a free block is in no bin");
      live += block.live;
      ++blocks;
      was_free = !block.live;
      before = block.size;
      place += block.size;
    }
    for (const std::uint64_t word : slab.begins) blocks -= static_cast<std::size_t>(std::popcount(word));
    if (place != slab.units || live != slab.live || blocks != 0) fail("blocks are miscounted");
  });
}

}  // namespace gmlake
