// The free addresses of a span, as a tree of holes ordered by address that also knows the largest hole below every
// node: the lowest hole that is large enough is found in logarithmic time, and returned addresses join their
// neighbours. It knows nothing of what the addresses are used for.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

class AddressSpace {
 public:
  AddressSpace(Address begin, Bytes size);

  Address take(Bytes size);           // the lowest free span of this size; 0 when there is none
  void give(Address at, Bytes size);  // a span that take handed out, or part of one

 private:
  using Index = std::uint32_t;  // 0 is no node
  struct Node {
    Address begin = 0;
    Bytes size = 0;
    Bytes largest = 0;  // of this node and all below it
    std::uint64_t priority = 0;
    Index left = 0, right = 0;
  };

  Index make(Address begin, Bytes size);
  void refresh(Index node);
  Index merge(Index low, Index high);
  void split(Index node, Address at, Index& below, Index& from);  // nodes that begin below `at`, and the rest
  Index take_first(Index node, Bytes size, Address& at);
  Index take_last(Index node, Node& last);

  std::vector<Node> nodes_;
  std::vector<Index> spare_;
  Index root_ = 0;
  std::mt19937_64 random_{1};  // priorities keep the tree balanced; a fixed seed keeps runs alike
};

}  // namespace gmlake
