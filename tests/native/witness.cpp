#include "witness.h"

#include <algorithm>
#include <string>

#include "base/units.h"

namespace gmlake::testing {

void Witness::received(Address address, Bytes size) {
  const std::vector<Piece> pieces = pieces_of(address, size);
  std::lock_guard lock(mutex_);
  if (!blocks_.emplace(address, Block{size, pieces}).second)
    throw Failure("address " + std::to_string(address) + " was handed out twice");
  for (const Piece& piece : pieces) {
    const auto next = taken_.lower_bound(piece.from);
    const auto meets = [&](const auto& other) {
      return other.first.first == piece.from.first && other.first.second < piece.from.second + piece.size &&
             piece.from.second < other.first.second + other.second;
    };
    if ((next != taken_.end() && meets(*next)) || (next != taken_.begin() && meets(*std::prev(next))))
      throw Failure("the block at " + std::to_string(address) + " shares memory with another");
    taken_.emplace_hint(next, piece.from, piece.size);
  }
}

void Witness::returning(Address address) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) throw Failure("address " + std::to_string(address) + " is not out");
  for (const Piece& piece : found->second.pieces) taken_.erase(piece.from);
  blocks_.erase(found);
}

void Witness::verify() const {
  std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_) {
    const std::vector<Piece> now = pieces_of(address, block.size);
    const auto same = [](const Piece& a, const Piece& b) { return a.from == b.from && a.size == b.size; };
    if (!std::ranges::equal(now, block.pieces, same))
      throw Failure("the memory behind " + std::to_string(address) + " was exchanged while it was in use");
    if (now.front().from.first != 0 && !driver_.accessible(address, block.size))
      throw Failure("the block at " + std::to_string(address) + " may not be touched");
  }
}

std::vector<Witness::Piece> Witness::pieces_of(Address address, Bytes size) const {
  const Bytes step = driver_.granularity();
  const Address end = address + size;
  if (driver_.handle_at(address) == 0) return {{{0, address}, size}};
  std::vector<Piece> pieces;
  for (Address at = address; at < end;) {
    const Spot from{driver_.handle_at(at), driver_.offset_at(at)};
    Address next = round_down(at, step) + step;
    while (next < end && driver_.handle_at(next) == from.first && driver_.offset_at(next) == from.second + (next - at))
      next += step;
    next = std::min(next, end);
    pieces.push_back({from, next - at});
    at = next;
  }
  return pieces;
}

}  // namespace gmlake::testing
