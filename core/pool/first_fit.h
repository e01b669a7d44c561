// "Which is the lowest cell that starts a free extent of at least this size?" in a handful of steps, however many
// extents there are: a tree of maxima over cells, eight children to a node. It knows cells and sizes, not extents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gmlake {

class FirstFit {
 public:
  static constexpr std::size_t none = SIZE_MAX;

  void resize(std::size_t wanted);  // never shrinks; new cells hold nothing
  std::size_t count() const { return levels_.empty() ? 0 : levels_.front().size(); }

  void set(std::size_t cell, std::uint32_t size) {
    for (std::size_t level = 0;;) {
      std::uint32_t& entry = levels_[level][cell];
      const std::uint32_t old = entry;
      entry = size;
      if (size == old || ++level == levels_.size()) return;
      cell /= fan;
      const std::uint32_t largest = levels_[level][cell];
      if (size <= largest) {
        if (old < largest) return;  // another child is the largest, and stays it
        const std::uint32_t* children = levels_[level - 1].data() + cell * fan;
        size = children[0];
        for (std::size_t child = 1; child < fan; ++child) size = std::max(size, children[child]);
      }
    }
  }

  std::uint32_t at(std::size_t cell) const { return levels_.front()[cell]; }

  std::size_t find(std::uint32_t size) const {
    std::size_t cell = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      cell *= fan;
      const std::uint32_t* siblings = level->data() + cell;
      std::size_t child = 0;
      while (child < fan && siblings[child] < size) ++child;
      if (child == fan) return none;  // only at the root
      cell += child;
    }
    return levels_.empty() ? none : cell;
  }

 private:
  static constexpr std::size_t fan = 8;
  std::vector<std::vector<std::uint32_t>> levels_;  // leaves first; every level is a multiple of fan long
};

}  // namespace gmlake
