// "Which is the lowest page that starts a free extent of at least this size?" in a handful of steps, however many
// extents there are: a tree over pages, eight children to a node. It knows pages and sizes, not extents; a page starts
// at most one.
//
// A node holds an upper bound of its children, not their maximum: what leaves a page leaves the bounds above it as they
// are, and a search that finds one too high corrects it and goes on. Extents shrink and grow all the time, but are
// rarely looked for in vain.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gmlake {

class FirstFit {
 public:
  static constexpr std::size_t none = SIZE_MAX;

  void resize(std::size_t pages);  // never shrinks; new pages hold nothing
  std::size_t pages() const { return levels_.empty() ? 0 : levels_.front().size(); }

  std::uint32_t at(std::size_t page) const { return levels_.front()[page]; }

  void insert(std::size_t page, std::uint32_t size) {
    levels_.front()[page] = size;
    for (std::size_t level = 1; level < levels_.size() && levels_[level][page /= fan] < size; ++level)
      levels_[level][page] = size;
  }
  void erase(std::size_t page) { levels_.front()[page] = 0; }

  std::size_t find(std::uint32_t size) {
    if (levels_.empty()) return none;
    std::size_t level = levels_.size() - 1;
    for (std::size_t node = 0;;) {  // whose children are looked at
      const std::uint32_t* children = levels_[level].data() + node * fan;
      std::size_t child = 0;
      while (child < fan && children[child] < size) ++child;
      if (child < fan) {
        node = node * fan + child;
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

  static std::uint32_t largest(const std::uint32_t* children) { return *std::max_element(children, children + fan); }

  std::vector<std::vector<std::uint32_t>> levels_;  // leaves first; every level is a multiple of fan long
};

}  // namespace gmlake
