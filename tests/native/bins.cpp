// Free things by size at the ends of the range: the sanitizers see a look beyond it, the checks a thing that is missed.
#include "pool/bins.h"

#include <cstdio>
#include <vector>

namespace {

struct Node {
  Node* bin_previous = nullptr;
  Node* bin_next = nullptr;
};

// Every second size from the largest down has a node. Are those of at least `least` met, each once?
bool all_met(std::size_t sizes, std::size_t least) {
  gmlake::Bins<Node> bins(sizes);
  std::vector<Node> nodes(sizes);
  std::size_t expected = 0;
  for (std::size_t size = sizes - 1; size < sizes; size -= 2) {
    bins.insert(&nodes[size], size);
    if (size >= least) ++expected;
  }
  std::size_t met = 0;
  bins.each_fit(least, [&](Node* node) { met += node >= &nodes[least]; });
  return met == expected && bins.best_fit(sizes - 1) == &nodes[sizes - 1];
}

}  // namespace

int main() {
  for (const std::size_t sizes : {std::size_t{64}, std::size_t{4096}, std::size_t{4097}, std::size_t{65536}})
    for (const std::size_t least : {std::size_t{0}, std::size_t{1}, sizes / 2, sizes - 1})
      if (!all_met(sizes, least)) {
        std::fprintf(stderr, "bins of %zu sizes: not all of at least %zu are met\n", sizes, least);
        return 1;
      }
  std::puts("bins: ok");
}
