// "Which is the lowest page that starts a free extent of at least this size?" in a handful of steps, however many
// extents there are: a tree of maxima over pages, eight children to a node. It knows pages and sizes, not extents; a
// page starts at most one.
//
// An extent that is cut or joined leaves one page and enters another nearby. Entering is done at once and leaving put
// off until then, because a climb ends as soon as another child of a node decides.
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

  void insert(std::size_t page, std::uint32_t size) {
    set(page, size);
    settle(page);
  }
  void erase(std::size_t page) { leaving_.push_back(page); }

  std::uint32_t at(std::size_t page) {
    settle(none);
    return levels_.front()[page];
  }

  std::size_t find(std::uint32_t size) {
    settle(none);
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

  void settle(std::size_t except) {
    for (std::size_t page : leaving_)
      if (page != except) set(page, 0);
    leaving_.clear();
  }
  void set(std::size_t page, std::uint32_t size);
  static std::uint32_t largest(const std::uint32_t* siblings);

  std::vector<std::vector<std::uint32_t>> levels_;  // leaves first; every level is a multiple of fan long
  std::vector<std::size_t> leaving_;
};

}  // namespace gmlake
