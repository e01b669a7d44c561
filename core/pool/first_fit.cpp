#include "pool/first_fit.h"

namespace gmlake {

void FirstFit::resize(std::size_t wanted) {
  if (wanted <= count()) return;
  std::vector<std::uint32_t> leaves = levels_.empty() ? std::vector<std::uint32_t>{} : std::move(levels_.front());
  leaves.resize((wanted + fan - 1) / fan * fan);
  levels_.clear();
  levels_.push_back(std::move(leaves));
  while (levels_.back().size() > fan) {
    const auto& below = levels_.back();
    std::vector<std::uint32_t> level((below.size() / fan + fan - 1) / fan * fan);
    for (std::size_t node = 0; node * fan < below.size(); ++node) level[node] = largest(below.data() + node * fan);
    levels_.push_back(std::move(level));
  }
}

}  // namespace gmlake
