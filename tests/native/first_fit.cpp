// The lowest cell that holds a size, found by the tree and found by looking at every cell, while cells are filled,
// emptied and added at random.
#include "pool/first_fit.h"

#include <cstdio>
#include <random>
#include <vector>

namespace {

using gmlake::FirstFit;

std::size_t lowest(const std::vector<FirstFit::Size>& cells, FirstFit::Size size) {
  for (std::size_t cell = 0; cell < cells.size(); ++cell)
    if (cells[cell] >= size) return cell;
  return FirstFit::none;
}

// Sizes of few kinds meet each other's bounds, sizes of many go past them.
bool agrees(std::uint64_t seed, FirstFit::Size largest) {
  std::mt19937_64 random(seed);
  std::size_t count = 1 + random() % 40;
  FirstFit tree;
  if (tree.find(1) != FirstFit::none) return false;
  tree.resize(count);
  std::vector<FirstFit::Size> cells(count);
  for (int step = 0; step < 4000; ++step) {
    const std::size_t cell = random() % count;
    const auto size = static_cast<FirstFit::Size>(1 + random() % static_cast<std::uint64_t>(largest));
    switch (random() % 8) {
      case 0:
      case 1:
        tree.insert(cell, cells[cell] = size);
        break;
      case 2:
      case 3:
        tree.erase(cell);
        cells[cell] = 0;
        break;
      case 4:
        if (step % 50 == 0) tree.resize(count *= 2), cells.resize(count);
        break;
      default:
        if (tree.find(size) != lowest(cells, size)) return false;
    }
    if (count > 5000) break;
  }
  return true;
}

}  // namespace

int main() {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    if (!agrees(seed, seed % 2 == 0 ? 6 : 1 << 20)) {
      std::fprintf(stderr, "first fit: the lowest cell is missed with seed %llu\n",
                   static_cast<unsigned long long>(seed));
      return 1;
    }
  std::puts("first fit: ok");
}
