// An array of zeros for tables that are large and mostly never used: pages of it that nobody touches cost nothing. For
// types of which all bits zero is a value.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace gmlake {

template <typename T>
class Zeroed {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit Zeroed(std::size_t size) : items_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (items_ == nullptr) throw std::bad_alloc();
  }

  std::size_t size() const { return size_; }
  T* data() const { return items_.get(); }
  T& operator[](std::size_t place) const { return items_.get()[place]; }

 private:
  struct Free {
    void operator()(T* items) const { std::free(items); }
  };
  std::unique_ptr<T, Free> items_;
  std::size_t size_;
};

}  // namespace gmlake
