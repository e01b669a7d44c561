// Objects of one type that come and go: they lie side by side in blocks and never move, and the one that was dropped
// last is the next to be made. Those still there when the store goes, go with it.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

namespace gmlake {

template <typename T>
class Store {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  [[gnu::always_inline]] T* make(const T& like) {
    Slot* slot = spare_;
    if (slot != nullptr) {
      spare_ = slot->next;
    } else {
      if (unused_ == end_) [[unlikely]]
        add_block();
      slot = unused_++;
    }
    return std::construct_at(&slot->object, like);
  }

  [[gnu::always_inline]] void drop(T* object) {
    Slot* slot = reinterpret_cast<Slot*>(object);  // a union begins with each of its members
    slot->next = spare_;
    spare_ = slot;
  }

 private:
  union Slot {
    Slot() {}
    Slot* next;
    T object;
  };
  static constexpr std::size_t block_size = 256;

  void add_block() {
    const std::unique_ptr<Slot[]>& block = blocks_.emplace_back(new Slot[block_size]);
    unused_ = block.get();
    end_ = unused_ + block_size;
  }

  std::vector<std::unique_ptr<Slot[]>> blocks_;
  Slot* spare_ = nullptr;
  Slot* unused_ = nullptr;  // of the newest block, those that were never made
  Slot* end_ = nullptr;
};

}  // namespace gmlake
