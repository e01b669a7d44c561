// Which handle is mapped where in a range of the simulated device: a page table, in leaves that are made when they are
// first used. It knows granules and handles; whether something may be mapped, and how large a handle is, the caller
// knows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class Mappings {
 public:
  using Number = std::uint64_t;  // of a granule in the range

  // A handle fills as many granules as it has, of which the first is marked.
  class Granule {
   public:
    Granule() = default;
    Granule(Handle handle, bool first) : bits_(handle << 2 | (first ? 1 : 0)) {}
    Handle handle() const { return bits_ >> 2; }       // 0: nothing is mapped
    bool first() const { return (bits_ & 1) != 0; }    // here the handle begins
    bool granted() const { return (bits_ & 2) != 0; }  // of the first: its memory may be touched
    void grant() { bits_ |= 2; }

   private:
    std::uint64_t bits_ = 0;
  };

  Granule operator[](Number number) const {
    const std::size_t leaf = number / leaf_size;
    return leaf < leaves_.size() && leaves_[leaf] != nullptr ? (*leaves_[leaf])[number % leaf_size] : Granule{};
  }
  Number begin(Number number) const {  // of the handle that is mapped there
    while (!(*this)[number].first()) --number;
    return number;
  }

  bool add(Number at, std::uint64_t count, Handle handle) {  // false: something is mapped there
    Granule next(handle, true);
    Number number = at;
    each(at, count, [&](Granule& granule) {
      if (granule.handle() != 0) return false;
      granule = next;
      next = Granule(handle, false);
      ++number;
      return true;
    });
    ++count_;
    if (number != at + count) erase(at, number - at);
    return number == at + count;
  }
  void grant(Number at) { leaf(at)[at % leaf_size].grant(); }
  void erase(Number at, std::uint64_t count) {
    each(at, count, [](Granule& granule) {
      granule = {};
      return true;
    });
    --count_;
  }

  std::uint64_t count() const { return count_; }  // of handles that are mapped

 private:
  static constexpr std::uint64_t leaf_size = 256;
  using Leaf = std::array<Granule, leaf_size>;

  template <typename Visit>
  void each(Number number, std::uint64_t count, Visit visit) {  // until it returns false
    for (const Number end = number + count; number != end;) {
      Granule* granule = &leaf(number)[number % leaf_size];
      const Number leaf_end = std::min(end, (number | (leaf_size - 1)) + 1);
      for (; number != leaf_end; ++number)
        if (!visit(*granule++)) return;
    }
  }
  Leaf& leaf(Number number) {
    const std::size_t leaf = number / leaf_size;
    return leaf < leaves_.size() && leaves_[leaf] != nullptr ? *leaves_[leaf] : make(leaf);
  }
  [[gnu::noinline]] Leaf& make(std::size_t leaf) {
    if (leaf >= leaves_.size()) leaves_.resize(leaf + 1);
    leaves_[leaf] = std::make_unique<Leaf>();
    return *leaves_[leaf];
  }

  std::vector<std::unique_ptr<Leaf>> leaves_;
  std::uint64_t count_ = 0;
};

}  // namespace gmlake
