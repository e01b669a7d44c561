#include "driver/simulated/address_space.h"

#include <algorithm>

namespace gmlake {

AddressSpace::AddressSpace(Address begin, Bytes size) : nodes_(1) {
  root_ = make(begin, size);
}

Address AddressSpace::take(Bytes size) {
  if (nodes_[root_].largest < size) return 0;
  Address at = 0;
  root_ = take_first(root_, size, at);
  return at;
}

void AddressSpace::give(Address at, Bytes size) {
  Index below = 0, from = 0;
  split(root_, at, below, from);
  if (below != 0) {
    Node last;
    below = take_last(below, last);
    if (last.begin + last.size == at) {
      at = last.begin;
      size += last.size;
    } else {
      below = merge(below, make(last.begin, last.size));
    }
  }
  Index touching = 0, above = 0;
  split(from, at + size + 1, touching, above);
  if (touching != 0) {
    size += nodes_[touching].size;
    spare_.push_back(touching);
  }
  root_ = merge(merge(below, make(at, size)), above);
}

AddressSpace::Index AddressSpace::make(Address begin, Bytes size) {
  Index node = 0;
  if (spare_.empty()) {
    node = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = spare_.back();
    spare_.pop_back();
  }
  nodes_[node] = {begin, size, size, random_(), 0, 0};
  return node;
}

void AddressSpace::refresh(Index node) {
  Node& n = nodes_[node];
  n.largest = std::max({n.size, nodes_[n.left].largest, nodes_[n.right].largest});
}

AddressSpace::Index AddressSpace::merge(Index low, Index high) {
  if (low == 0) return high;
  if (high == 0) return low;
  const bool low_on_top = nodes_[low].priority > nodes_[high].priority;
  const Index top = low_on_top ? low : high;
  if (low_on_top)
    nodes_[top].right = merge(nodes_[low].right, high);
  else
    nodes_[top].left = merge(low, nodes_[high].left);
  refresh(top);
  return top;
}

void AddressSpace::split(Index node, Address at, Index& below, Index& from) {
  if (node == 0) {
    below = from = 0;
    return;
  }
  Node& n = nodes_[node];
  if (n.begin < at) {
    below = node;
    split(n.right, at, n.right, from);
  } else {
    from = node;
    split(n.left, at, below, n.left);
  }
  refresh(node);
}

AddressSpace::Index AddressSpace::take_first(Index node, Bytes size, Address& at) {
  Node& n = nodes_[node];
  if (nodes_[n.left].largest >= size) {
    n.left = take_first(n.left, size, at);
  } else if (n.size >= size) {
    at = n.begin;
    n.begin += size;
    n.size -= size;
    if (n.size == 0) {
      spare_.push_back(node);
      return merge(n.left, n.right);
    }
  } else {
    n.right = take_first(n.right, size, at);
  }
  refresh(node);
  return node;
}

AddressSpace::Index AddressSpace::take_last(Index node, Node& last) {
  Node& n = nodes_[node];
  if (n.right == 0) {
    last = n;
    spare_.push_back(node);
    return n.left;
  }
  n.right = take_last(n.right, last);
  refresh(node);
  return node;
}

}  // namespace gmlake
