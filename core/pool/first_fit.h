// "Which is the lowest cell that holds at least this size?" in a handful of steps, however many cells there are: a tree
// over cells, sixteen children to a node, so that a node is a cache line. It knows cells and sizes, not what is in
// them.
//
// A node holds an upper bound of its children, not their maximum: what leaves a cell leaves the bounds above it as they
// are, and a search that finds one too high lowers it, to just below what it looks for, and goes on. Extents shrink and
// grow all the time, but are rarely looked for in vain.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gmlake {

class FirstFit {
 public:
  using Size = std::int32_t;  // signed, because that is what SSE2 compares; above zero
  static constexpr std::size_t none = SIZE_MAX;

  void resize(std::size_t cells);  // never shrinks; new cells are empty
  std::size_t count() const { return count_; }

  Size at(std::size_t cell) const { return value(0, cell); }

  void insert(std::size_t cell, Size size) {
    value(0, cell) = size;
    if (cell < floor_ && size >= floor_size_) floor_ = cell;
    for (std::size_t level = 1; level < depth_; ++level) {
      Size& bound = value(level, cell /= fan);
      if (bound >= size) return;
      bound = size;
    }
  }
  void erase(std::size_t cell) { value(0, cell) = 0; }

  std::size_t find(Size size) {
    if (depth_ == 0) return none;
    std::size_t cell = size >= floor_size_ ? near_floor(size) : none;
    if (cell == none) cell = search(size);
    if (cell == none) return none;
    floor_size_ = cell == floor_ ? std::min(floor_size_, size) : size;
    floor_ = cell;
    return cell;
  }

  // Calls visit(cell) for the cells that hold at least this size, the lowest first, until it returns false.
  template <typename Visit>
  void each_fit(Size size, Visit visit) const {
    auto look_into = [&](std::size_t leaf) {
      for (unsigned fitting = at_least(size, levels_[0][leaf]); fitting != 0; fitting &= fitting - 1)
        if (!visit(leaf * fan + lowest(fitting))) return false;
      return true;
    };
    if (depth_ == 1) look_into(0);
    for (std::size_t leaf = 0; depth_ > 1 && leaf < count_ / fan; leaf += fan)
      for (unsigned fitting = at_least(size, levels_[1][leaf / fan]); fitting != 0; fitting &= fitting - 1)
        if (!look_into(leaf + lowest(fitting))) return;
  }

 private:
  static constexpr std::size_t fan = 16;
  static constexpr std::size_t most_levels = 8;
  struct alignas(64) Node {
    std::array<Size, fan> size;
  };

  std::size_t near_floor(Size size) const {  // the lowest, if it is in the node of the floor
    const std::size_t leaf = floor_ / fan;
    const unsigned fitting = at_least(size, levels_[0][leaf]);
    return fitting == 0 ? none : leaf * fan + lowest(fitting);
  }
  [[gnu::noinline]] std::size_t search(Size size) {
    std::array<unsigned, most_levels> fitting;  // children not yet looked into, by level
    std::size_t level = depth_ - 1;
    std::size_t node = 0;  // whose children they are
    fitting[level] = at_least(size, levels_[level][node]);
    for (;;) {
      if (fitting[level] != 0) {
        node = node * fan + lowest(fitting[level]);
        if (level == 0) return node;
        --level;
        fitting[level] = at_least(size, levels_[level][node]);
      } else {
        if (++level == depth_) return none;
        value(level, node) = size - 1;
        node /= fan;
        fitting[level] &= fitting[level] - 1;
      }
    }
  }

  Size& value(std::size_t level, std::size_t place) { return levels_[level][place / fan].size[place % fan]; }
  Size value(std::size_t level, std::size_t place) const { return levels_[level][place / fan].size[place % fan]; }

  static std::size_t lowest(unsigned children) { return static_cast<std::size_t>(std::countr_zero(children)); }
  static Size highest(const Node& node) {  // as a loop that compilers turn into a few wide steps
    Size highest = 0;
    for (const Size size : node.size) highest = std::max(highest, size);
    return highest;
  }
  // A bit per child. All are looked at, because no branch predictor could guess where to stop.
  static unsigned at_least(Size size, const Node& node) {
#if defined(__SSE2__)
    const __m128i below = _mm_set1_epi32(size - 1);
    const auto* children = reinterpret_cast<const __m128i*>(&node);
    const __m128i low = _mm_packs_epi32(_mm_cmpgt_epi32(children[0], below), _mm_cmpgt_epi32(children[1], below));
    const __m128i high = _mm_packs_epi32(_mm_cmpgt_epi32(children[2], below), _mm_cmpgt_epi32(children[3], below));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#else
    unsigned fitting = 0;
    for (std::size_t child = 0; child < fan; ++child) fitting |= unsigned{node.size[child] >= size} << child;
    return fitting;
#endif
  }

  std::vector<Node> nodes_;                  // level after level, leaves first
  std::array<Node*, most_levels> levels_{};  // where each begins
  std::size_t depth_ = 0;
  // No cell below the floor holds this size: one that fits is mostly found right where the last was.
  std::size_t floor_ = 0;
  Size floor_size_ = std::numeric_limits<Size>::max();
  std::size_t count_ = 0;
};

}  // namespace gmlake
