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
    if (spare_ == nullptr) [[unlikely]]
      add_block();
    Slot* slot = spare_;
    spare_ = slot->next;
    return std::construct_at(&slot->object, like);
  }

  [[gnu::always_inline]] void drop(T* object) {
    Slot* slot = reinterpret_cast<Slot*>(object);  // a union begins with each of its members
    slot->next = spare_;
    spare_ = slot;
  }

 private:
  union Slot {
    Slot() : next(nullptr) {}
    Slot* next;
    T object;
  };
  static constexpr std::size_t block_size = 256;

  void add_block() {
    const std::unique_ptr<Slot[]>& block = blocks_.emplace_back(new Slot[block_size]);
    for (std::size_t i = 0; i + 1 < block_size; ++i) block[i].next = &block[i + 1];
    spare_ = block.get();
  }

  std::vector<std::unique_ptr<Slot[]>> blocks_;
  Slot* spare_ = nullptr;
};

}  // namespace gmlake
