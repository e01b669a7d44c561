// "Which is the lowest cell that holds at least this size?" in a handful of steps, however many cells there are: a tree
// over cells, eight children to a node. It knows cells and sizes, not what is in them.
//
// A node holds an upper bound of its children, not their maximum: what leaves a cell leaves the bounds above it as they
// are, and a search that finds one too high corrects it and goes on. Extents shrink and grow all the time, but are
// rarely looked for in vain.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gmlake {

class FirstFit {
 public:
  static constexpr std::size_t none = SIZE_MAX;

  void resize(std::size_t cells);  // never shrinks; new cells are empty
  std::size_t count() const { return levels_.empty() ? 0 : levels_.front().size(); }

  std::uint32_t at(std::size_t cell) const { return levels_.front()[cell]; }

  void insert(std::size_t cell, std::uint32_t size) {
    levels_.front()[cell] = size;
    for (std::size_t level = 1; level < levels_.size() && levels_[level][cell /= fan] < size; ++level)
      levels_[level][cell] = size;
  }
  void erase(std::size_t cell) { levels_.front()[cell] = 0; }

  std::size_t find(std::uint32_t size) {
    if (levels_.empty()) return none;
    std::size_t level = levels_.size() - 1;
    for (std::size_t node = 0;;) {  // whose children are looked at
      const std::uint32_t* children = levels_[level].data() + node * fan;
      const unsigned fitting = at_least(size, children);
      if (fitting != 0) {
        node = node * fan + static_cast<std::size_t>(std::countr_zero(fitting));
        if (level-- == 0) return node;
      } else {
        if (++level == levels_.size()) return none;
        levels_[level][node] = largest(children);
        node /= fan;
      }
    }
  }

 private:
  static constexpr std::size_t fan = 8;

  // A bit per child. All are looked at, because no branch predictor could guess where to stop.
  static unsigned at_least(std::uint32_t size, const std::uint32_t* children) {
    unsigned fitting = 0;
    for (std::size_t child = 0; child < fan; ++child) fitting |= unsigned{children[child] >= size} << child;
    return fitting;
  }
  static std::uint32_t largest(const std::uint32_t* children) { return *std::max_element(children, children + fan); }

  std::vector<std::vector<std::uint32_t>> levels_;  // leaves first; every level is a multiple of fan long
};

}  // namespace gmlake
