#include "pool/first_fit.h"

namespace gmlake {

// Without branches: which child is the largest cannot be predicted.
std::uint32_t FirstFit::largest(const std::uint32_t* siblings) {
  std::uint32_t largest = siblings[0];
  for (std::size_t child = 1; child < fan; ++child) largest = std::max(largest, siblings[child]);
  return largest;
}

void FirstFit::set(std::size_t page, std::uint32_t size) {
  for (std::size_t level = 0;;) {
    std::uint32_t& entry = levels_[level][page];
    const std::uint32_t old = entry;
    entry = size;
    if (size == old || ++level == levels_.size()) return;
    page /= fan;
    const std::uint32_t above = levels_[level][page];
    if (size <= above) {
      if (old < above) return;  // another child is the largest, and stays it
      size = largest(levels_[level - 1].data() + page * fan);
    }
  }
}

void FirstFit::resize(std::size_t wanted) {
  if (wanted <= pages()) return;
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
