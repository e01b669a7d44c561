// Which handle is mapped where on the simulated device: a page table, in leaves of 1024 granules that are made when
// they are first used. It knows granules and handles; whether something may be mapped, and how large a handle is, the
// caller knows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/vocabulary.h"

namespace gmlake {

class Mappings {
 public:
  using Number = std::uint64_t;  // of a granule: its address in units of the granularity

  // A handle fills as many granules as it has, of which the first is marked.
  struct Granule {
    Handle handle : 62 = 0;         // 0: nothing is mapped
    std::uint64_t first : 1 = 0;    // here the handle begins
    std::uint64_t granted : 1 = 0;  // of the first: its memory may be touched
  };

  Granule operator[](Number number) const {
    const Leaf* found = find(number / leaf_size);
    return found == nullptr ? Granule{} : (*found)[number % leaf_size];
  }
  Number begin(Number number) const {  // of the handle that is mapped there
    while ((*this)[number].first == 0) --number;
    return number;
  }

  bool empty(Number from, std::uint64_t count) {
    Handle any = 0;
    each(from, count, [&](const Granule& granule) { any |= granule.handle; });
    return any == 0;
  }
  void add(Number at, std::uint64_t count, Handle handle) {
    Granule next{handle, 1, 0};
    each(at, count, [&](Granule& granule) {
      granule = next;
      next.first = 0;
    });
    ++count_;
  }
  void grant(Number at) { leaf(at / leaf_size)[at % leaf_size].granted = 1; }
  void erase(Number at, std::uint64_t count) {
    each(at, count, [](Granule& granule) { granule = {}; });
    --count_;
  }

  std::size_t count() const { return count_; }

 private:
  static constexpr std::uint64_t leaf_size = 1024;
  using Leaf = std::array<Granule, leaf_size>;

  template <typename Visit>
  void each(Number number, std::uint64_t left, Visit visit) {
    while (left != 0) {
      const std::uint64_t begin = number % leaf_size;
      const std::uint64_t count = std::min(left, leaf_size - begin);
      for (Granule& granule : std::span(leaf(number / leaf_size)).subspan(begin, count)) visit(granule);
      number += count;
      left -= count;
    }
  }
  Leaf* find(std::uint64_t number) const {
    if (number == last_number_) return last_;
    const auto found = leaves_.find(number);
    if (found == leaves_.end()) return nullptr;
    last_number_ = number;
    return last_ = found->second.get();
  }
  Leaf& leaf(std::uint64_t number) {
    Leaf* found = find(number);
    return found != nullptr ? *found : *(leaves_[number] = std::make_unique<Leaf>());
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Leaf>> leaves_;
  mutable std::uint64_t last_number_ = UINT64_MAX;  // of the leaf that was used last
  mutable Leaf* last_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace gmlake
