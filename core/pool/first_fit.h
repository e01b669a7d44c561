// "Which is the lowest page that starts a free extent of at least this size?" in a handful of steps, however many
// extents there are: a tree of maxima over pages, eight children to a node. It knows pages and sizes, not extents.
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

  void set(std::size_t page, std::uint32_t size) {
    for (std::size_t level = 0;;) {
      std::uint32_t& entry = levels_[level][page];
      const std::uint32_t old = entry;
      entry = size;
      if (size == old || ++level == levels_.size()) return;
      page /= fan;
      const std::uint32_t largest = levels_[level][page];
      if (size <= largest) {
        if (old < largest) return;  // another child is the largest, and stays it
        const std::uint32_t* children = levels_[level - 1].data() + page * fan;
        size = *std::max_element(children, children + fan);
      }
    }
  }

  std::uint32_t at(std::size_t page) const { return levels_.front()[page]; }

  std::size_t find(std::uint32_t size) const {
    std::size_t page = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      page *= fan;
      const std::uint32_t* siblings = level->data() + page;
      std::size_t child = 0;
      while (child < fan && siblings[child] < size) ++child;
      if (child == fan) return none;  // only at the root
      page += child;
    }
    return levels_.empty() ? none : page;
  }

 private:
  static constexpr std::size_t fan = 8;
  std::vector<std::vector<std::uint32_t>> levels_;  // leaves first; every level is a multiple of fan long
};

}  // namespace gmlake
