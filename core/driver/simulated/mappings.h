// Which handle is mapped where in a range of the simulated device: a page table, in leaves that are made when they are
// first used. It knows granules and handles; whether something may be mapped, and how large a handle is, the caller
// knows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
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
    void grant() { bits_ |= (bits_ & 1) << 1; }

   private:
    std::uint64_t bits_ = 0;
  };

  Granule operator[](Number number) const { return leaf(number)[number % leaf_size]; }
  Number begin(Number number) const {  // of the handle that is mapped there
    while (!(*this)[number].first()) --number;
    return number;
  }
  // How many handles fill the granules, one after the other and without a gap; 0: they do not.
  std::uint64_t filled_by(Number first, Number end) const {
    std::uint64_t handles = 0;
    const Number empty = each(*this, first, end, [&](const Granule& granule) {
      handles += granule.first() ? 1 : 0;
      return granule.handle() != 0;
    });
    const Granule behind = (*this)[end];  // must not be the rest of the last
    return empty == end && (*this)[first].first() && (behind.first() || behind.handle() == 0) ? handles : 0;
  }

  // Maps handles side by side, each on `count` granules, until one would lie on another. How many were mapped.
  std::size_t add(Number at, std::uint64_t count, std::span<const Handle> handles) {
    const Number end = at + handles.size() * count;
    const Number taken =
        each(std::as_const(*this), at, end, [](const Granule& granule) { return granule.handle() == 0; });
    const std::size_t done = taken == end ? handles.size() : (taken - at) / count;
    const Handle* handle = handles.data();
    std::uint64_t left = count;  // granules of this handle
    each(*this, at, at + done * count, [&](Granule& granule) {
      granule = Granule(*handle, left == count);
      if (--left == 0) {
        ++handle;
        left = count;
      }
      return true;
    });
    count_ += done;
    return done;
  }
  // Of granules that handles fill: makes them accessible; empties them, and calls gone(handle) for each of those.
  void grant(Number first, Number end) {
    each(*this, first, end, [](Granule& granule) {
      granule.grant();
      return true;
    });
  }
  template <typename Gone>
  void erase(Number first, Number end, Gone gone) {
    each(*this, first, end, [&](Granule& granule) {
      if (granule.first()) {
        gone(granule.handle());
        --count_;
      }
      granule = {};
      return true;
    });
  }

  std::uint64_t count() const { return count_; }  // of handles that are mapped

 private:
  static constexpr std::uint64_t leaf_size = 256;
  using Leaf = std::array<Granule, leaf_size>;

  // Calls visit(granule) until it returns false. The number of that granule, or the end.
  template <typename Self, typename Visit>
  static Number each(Self& self, Number number, Number end, Visit visit) {
    while (number != end) {
      auto* granule = &self.leaf(number)[number % leaf_size];
      for (const Number leaf_end = std::min(end, (number | (leaf_size - 1)) + 1); number != leaf_end; ++number)
        if (!visit(*granule++)) return number;
    }
    return end;
  }
  const Leaf& leaf(Number number) const {
    static constexpr Leaf empty{};
    const std::size_t leaf = number / leaf_size;
    return leaf < leaves_.size() && leaves_[leaf] != nullptr ? *leaves_[leaf] : empty;
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
