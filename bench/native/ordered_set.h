// Best fit as PyTorch does it, and nothing more: free blocks in an ordered set by size and address, blocks in use in a
// hash map by pointer, neighbours joined when a block comes free, one mutex. It keeps no statistics, knows one stream
// and never grows, so it is faster than any allocator one could train with: a yardstick that does not flatter us.
#pragma once

#include <mutex>
#include <new>
#include <set>
#include <unordered_map>

#include "base/vocabulary.h"

namespace gmlake::bench {

class OrderedSet {
 public:
  OrderedSet(Address range, Bytes size) { free_.insert(new Block{.address = range, .size = size}); }
  OrderedSet(const OrderedSet&) = delete;
  OrderedSet& operator=(const OrderedSet&) = delete;

  ~OrderedSet() {
    for (Block* block : free_) delete block;
    for (const auto& [address, block] : used_) delete block;
  }

  Address allocate(Bytes size) {
    std::lock_guard lock(mutex_);
    Block key{.size = size};
    const auto fit = free_.lower_bound(&key);
    if (fit == free_.end()) throw std::bad_alloc();
    Block* block = *fit;
    free_.erase(fit);
    if (block->size > size) {
      auto* rest = new Block{block->address + size, block->size - size, block, block->next};
      if (rest->next != nullptr) rest->next->previous = rest;
      block->next = rest;
      block->size = size;
      free_.insert(rest);
    }
    block->used = true;
    used_.emplace(block->address, block);
    return block->address;
  }

  void release(Address address) {
    std::lock_guard lock(mutex_);
    const auto found = used_.find(address);
    Block* block = found->second;
    used_.erase(found);
    block->used = false;
    if (Block* next = block->next; next != nullptr && !next->used) {
      free_.erase(next);
      join(block, next);
    }
    if (Block* previous = block->previous; previous != nullptr && !previous->used) {
      free_.erase(previous);
      join(previous, block);
      block = previous;
    }
    free_.insert(block);
  }

  std::size_t free_blocks() const { return free_.size(); }

 private:
  struct Block {
    Address address = 0;
    Bytes size = 0;
    Block* previous = nullptr;
    Block* next = nullptr;
    bool used = false;
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };

  static void join(Block* block, Block* next) {
    block->size += next->size;
    block->next = next->next;
    if (next->next != nullptr) next->next->previous = block;
    delete next;
  }

  std::mutex mutex_;
  std::set<Block*, BySize> free_;
  std::unordered_map<Address, Block*> used_;
};

}  // namespace gmlake::bench
