#include "pool/small.h"

#include <bit>
#include <string>

#include "base/error.h"

namespace gmlake {

SmallPool::~SmallPool() = default;

SmallPool::Bins& SmallPool::bins(Stream stream) {
  if (last_ != nullptr && last_->stream == stream) return *last_;
  auto& entry = by_stream_[stream];
  if (entry == nullptr) {
    entry = std::make_unique<Bins>();
    entry->stream = stream;
    entry->lane = supply_.fences.lane(stream);
  }
  last_ = entry.get();
  return *last_;
}

Address SmallPool::allocate(Bytes size, Bytes requested, Stream stream) {
  Bins& bins = this->bins(stream);
  const auto units = static_cast<std::uint16_t>(size / unit);
  for (int attempt = 0;; ++attempt) {
    std::size_t word = units / 64;
    std::uint64_t sizes = bins.filled[word] & (~std::uint64_t{0} << units % 64);
    if (sizes == 0) {
      const std::uint64_t later = word < 63 ? bins.filled_words & (~std::uint64_t{0} << (word + 1)) : 0;
      word = later != 0 ? static_cast<std::size_t>(std::countr_zero(later)) : Bins::words - 1;
      sizes = bins.filled[word];
    }
    if (sizes != 0) {
      Block* block = bins.head[word * 64 + static_cast<std::size_t>(std::countr_zero(sizes))];
      unlist(block);
      if (block->size > units) {
        Block& rest = block->slab->blocks[block->place + units];
        rest.size = block->size - units;
        rest.before = units;
        block->size = units;
        if (const std::size_t end = rest.place + rest.size; end < block->slab->blocks.size())
          block->slab->blocks[end].before = rest.size;
        list(&rest);
      }
      block->live = true;
      block->uses = 0;
      block->requested = static_cast<std::uint32_t>(requested);
      ++block->slab->live;
      return block->address();
    }
    if (attempt == 1 || !add_slab(bins)) return 0;
  }
}

SmallPool::Block* SmallPool::find(Address address) const {
  const std::size_t page = (address - slabs_.range()) / supply_.page;
  if (page >= slab_at_.size() || slab_at_[page] == nullptr || address % unit != 0) return nullptr;
  Block* block = &slab_at_[page]->blocks[(address - slab_at_[page]->address) / unit];
  return block->size != 0 && block->live && !block->limbo ? block : nullptr;
}

void SmallPool::free(Block* block) {
  Slab& slab = *block->slab;
  block->live = block->limbo = false;
  if (--slab.live == 0 && slab_count_ > by_stream_.size()) {  // every stream may keep one
    list(block);  // as the slab's other blocks are
    give_back(slab);
    return;
  }
  const std::size_t end = block->place + block->size;
  if (end < slab.blocks.size() && !slab.blocks[end].live) {
    Block& after = slab.blocks[end];
    unlist(&after);
    block->size += after.size;
    after.size = 0;
  }
  if (block->before != 0 && !slab.blocks[block->place - block->before].live) {
    Block& before = slab.blocks[block->place - block->before];
    unlist(&before);
    before.size += block->size;
    block->size = 0;
    block = &before;
  }
  if (const std::size_t next = block->place + block->size; next < slab.blocks.size())
    slab.blocks[next].before = block->size;
  list(block);
}

void SmallPool::give_back(Slab& slab) {
  for (std::size_t place = 0; place < slab.blocks.size(); place += slab.blocks[place].size)
    unlist(&slab.blocks[place]);
  Clock clock;
  supply_.fences.stamp(clock, slab.bins->lane);
  slabs_.give_back(slab.address, clock);
  --slab_count_;
  slab_at_[(slab.address - slabs_.range()) / supply_.page].reset();
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

bool SmallPool::add_slab(Bins& bins) {
  const Address address = slabs_.take(bins.stream);
  if (address == 0) return false;
  auto slab = std::make_unique<Slab>();
  slab->address = address;
  slab->bins = &bins;
  slab->blocks.resize(supply_.page / unit);
  for (std::size_t place = 0; place < slab->blocks.size(); ++place) {
    slab->blocks[place].slab = slab.get();
    slab->blocks[place].place = static_cast<std::uint16_t>(place);
  }
  Block* whole = slab->blocks.data();
  whole->size = static_cast<std::uint16_t>(slab->blocks.size());
  list(whole);
  const std::size_t page = (address - slabs_.range()) / supply_.page;
  if (page >= slab_at_.size()) slab_at_.resize(page + 1);
  slab_at_[page] = std::move(slab);
  ++slab_count_;
  return true;
}

void SmallPool::list(Block* block) {
  Bins& bins = *block->slab->bins;
  Block*& head = bins.head[block->size];
  block->previous = nullptr;
  block->next = head;
  if (head != nullptr) head->previous = block;
  head = block;
  const std::size_t word = block->size / 64;
  bins.filled[word] |= std::uint64_t{1} << block->size % 64;
  if (word < 64) bins.filled_words |= std::uint64_t{1} << word;
}

void SmallPool::unlist(Block* block) {
  Bins& bins = *block->slab->bins;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (block->previous != nullptr) {
    block->previous->next = block->next;
    return;
  }
  bins.head[block->size] = block->next;
  if (block->next != nullptr) return;
  const std::size_t word = block->size / 64;
  bins.filled[word] &= ~(std::uint64_t{1} << block->size % 64);
  if (word < 64 && bins.filled[word] == 0) bins.filled_words &= ~(std::uint64_t{1} << word);
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
    while (place < slab.blocks.size()) {
      const Block& block = slab.blocks[place];
      if (block.size == 0 || block.before != before) fail("blocks do not tile it");
      if (was_free && !block.live) fail("free neighbours were not joined");
      const Block* head = slab.bins->head[block.size];
      if (!block.live && (head == nullptr || (slab.bins->filled[block.size / 64] >> block.size % 64 & 1) == 0))
        fail("a free block is in no bin");
      live += block.live;
      was_free = !block.live;
      before = block.size;
      place += block.size;
    }
    if (place != slab.blocks.size() || live != slab.live) fail("blocks are miscounted");
  });
}

}  // namespace gmlake
