#include "pool/first_fit.h"

namespace gmlake {

void FirstFit::resize(std::size_t cells) {
  if (cells <= count_) return;
  std::array<std::size_t, most_levels> first{};  // node of each level
  std::size_t total = 0;
  std::size_t depth = 0;
  for (std::size_t places = cells; depth == 0 || places > 1; ++depth) {
    first[depth] = total;
    places = (places + fan - 1) / fan;  // nodes here are places above
    total += places;
  }
  std::vector<Node> nodes(total);
  std::copy_n(nodes_.begin(), count_ / fan, nodes.begin());
  nodes_ = std::move(nodes);
  depth_ = depth;
  count_ = (cells + fan - 1) / fan * fan;
  for (std::size_t level = 0; level < depth; ++level) levels_[level] = nodes_.data() + first[level];
  for (std::size_t level = 1; level < depth; ++level)
    for (std::size_t node = 0; node < first[level] - first[level - 1]; ++node)
      value(level, node) = highest(levels_[level - 1][node]);
}

}  // namespace gmlake
