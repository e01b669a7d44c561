// Free things by size: a list per size and a bitmap of the sizes that have one, so that the smallest size that fits is
// found in three steps however many there are. A node brings its own links (bin_previous, bin_next). Best fit; the one
// that came last of equals, because its memory is warm.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gmlake {

// A set of small numbers that finds the next member from a given number on.
class SizeSet {
 public:
  static constexpr std::size_t none = SIZE_MAX;

  // With room for the number `count` itself, which may be asked about, too.
  explicit SizeSet(std::size_t count) : low_(count / 64 + 1), middle_((low_.size() + 63) / 64) {}

  void insert(std::size_t number) {
    low_[number / 64] |= bit(number);
    middle_[number / 4096] |= bit(number / 64);
    high_ |= bit(number / 4096);
  }

  void erase(std::size_t number) {  // without a branch, because none could be foreseen
    const std::uint64_t low = low_[number / 64] &= ~bit(number);
    const std::uint64_t middle = middle_[number / 4096] &= ~(std::uint64_t{low == 0} << number / 64 % 64);
    high_ &= ~(std::uint64_t{middle == 0} << number / 4096);
  }

  bool contains(std::size_t number) const { return (low_[number / 64] & bit(number)) != 0; }

  std::size_t next(std::size_t number) const {
    const std::uint64_t members = low_[number / 64] & from(number);
    return members != 0 ? number / 64 * 64 + first(members) : next_word(number / 64 + 1);
  }

 private:
  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % 64; }
  static std::uint64_t from(std::size_t number) { return ~std::uint64_t{0} << number % 64; }
  static std::size_t first(std::uint64_t members) { return static_cast<std::size_t>(std::countr_zero(members)); }
  std::size_t lowest(std::size_t word) const { return word * 64 + first(low_[word]); }

  std::size_t next_word(std::size_t number) const {  // the first member from this word of low_ on
    if (number < low_.size())
      if (std::uint64_t words = middle_[number / 64] & from(number)) return lowest(number / 64 * 64 + first(words));
    number = number / 64 + 1;  // a word of middle_
    if (number >= middle_.size()) return none;
    const std::uint64_t words = high_ & from(number);
    if (words == 0) return none;
    const std::size_t word = first(words);
    return lowest(word * 64 + first(middle_[word]));
  }

  std::vector<std::uint64_t> low_;     // a bit per number
  std::vector<std::uint64_t> middle_;  // a bit per word of low_
  std::uint64_t high_ = 0;             // a bit per word of middle_: room for 262 144 numbers
};

template <typename Node>
class Bins {
 public:
  explicit Bins(std::size_t sizes) : heads_(std::make_unique_for_overwrite<Node*[]>(sizes)), filled_(sizes) {}

  void insert(Node* node, std::size_t size) { insert_before(head(size), node, size); }

  // As insert, but behind the first if that has the lower address: of equals the lowest is then taken first, or nearly
  // so, at the price of one comparison.
  void insert_by_address(Node* node, std::size_t size) {
    Node* first = head(size);
    if (first == nullptr || first->address > node->address) {
      insert_before(first, node, size);
      return;
    }
    node->bin_previous = first;
    node->bin_next = first->bin_next;
    if (first->bin_next != nullptr) first->bin_next->bin_previous = node;
    first->bin_next = node;
  }

  [[gnu::always_inline]] void erase(Node* node, std::size_t size) {
    if (node->bin_next != nullptr) node->bin_next->bin_previous = node->bin_previous;
    if (node->bin_previous != nullptr)
      node->bin_previous->bin_next = node->bin_next;
    else
      heads_[size] = node->bin_next;
  }

  // The smallest of at least this size, or nullptr. Sizes of which nothing is left stay in the set until they are met
  // here: most come back before.
  Node* best_fit(std::size_t size) {
    for (;;) {
      const std::size_t found = filled_.next(size);
      if (found == SizeSet::none) return nullptr;
      if (heads_[found] != nullptr) [[likely]]
        return heads_[found];
      filled_.erase(found);
    }
  }

  template <typename Visit>
  void each_fit(std::size_t size, Visit visit) const {  // of at least this size, in no order
    for (size = filled_.next(size); size != SizeSet::none; size = filled_.next(size + 1))
      for (Node* node = heads_[size]; node != nullptr; node = node->bin_next) visit(node);
  }

  bool contains(const Node* node, std::size_t size) const {
    const Node* listed = head(size);
    while (listed != nullptr && listed != node) listed = listed->bin_next;
    return listed != nullptr;
  }

 private:
  Node* head(std::size_t size) const { return filled_.contains(size) ? heads_[size] : nullptr; }
  void insert_before(Node* first, Node* node, std::size_t size) {
    node->bin_previous = nullptr;
    node->bin_next = first;
    if (first != nullptr)
      first->bin_previous = node;
    else
      filled_.insert(size);
    heads_[size] = node;
  }

  // By size, of those in the set. Few of very many are ever used: the rest is never touched, not even to clear it.
  std::unique_ptr<Node*[]> heads_;
  SizeSet filled_;  // every size that has a list, and some that had one
};

}  // namespace gmlake
