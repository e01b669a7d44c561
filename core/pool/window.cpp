#include "pool/window.h"

#include <algorithm>
#include <limits>

#include "base/units.h"

namespace gmlake {
namespace {

// The bytes, in whole pages, that [at, end) lacks in this piece.
Bytes lacking(const GapPiece& piece, Address at, Address end) {
  if (piece.mapped) return 0;
  return round_up(std::min(end, piece.end()), page_size) - round_down(std::max(at, piece.at), page_size);
}

}  // namespace

Window best_window(const Gap& gap, Bytes size) {
  Window best{0, std::numeric_limits<Bytes>::max()};
  auto consider = [&](Address at, Bytes unmapped) {
    if (unmapped < best.unmapped || (unmapped == best.unmapped && at < best.at)) best = {at, unmapped};
  };
  auto whole = [](const GapPiece& piece) { return piece.mapped ? 0 : piece.size; };
  // The fewest unmapped bytes are in a window that begins or ends with a piece. Both kinds are passed in one sweep
  // each.
  Bytes inside = 0;  // unmapped, from the piece the window begins with to the one before its last
  for (auto piece = gap.begin(), last = piece; gap.back().end() - piece->at >= size; ++piece) {
    const Address end = piece->at + size;
    while (last->end() < end) inside += whole(*last++);
    consider(piece->at, inside + lacking(*last, piece->at, end));
    if (piece == last)
      ++last;
    else
      inside -= whole(*piece);
    if (last == gap.end()) break;
  }
  inside = 0;  // unmapped, from the piece behind the window's first to the one it ends with
  for (auto piece = gap.begin(), first = piece; piece != gap.end(); ++piece) {
    if (piece != gap.begin()) inside += whole(*piece);
    if (piece->end() - gap.front().at < size) continue;
    const Address at = piece->end() - size;
    while (first->end() <= at) inside -= whole(*++first);
    consider(at, inside + lacking(*first, at, piece->end()));
  }
  return best;
}

void voids(const Gap& gap, const Window& window, Bytes size, std::vector<Void>& result) {
  result.clear();
  const Address end = window.at + size;
  for (const GapPiece& piece : gap) {
    if (piece.mapped || piece.end() <= window.at || piece.at >= end) continue;
    const Address from = round_down(std::max(window.at, piece.at), page_size);
    result.push_back({from, round_up(std::min(end, piece.end()), page_size) - from, piece.end() - from});
  }
}

void fill(std::span<const Void> voids, std::span<const Bytes> donors, Bytes chunk, Bytes allowance,
          std::vector<Placement>& plan) {
  plan.clear();
  std::vector<bool> used(donors.size());
  std::size_t unused = 0;  // no donor before it is left
  for (const Void& hole : voids) {
    Address at = hole.at;
    Bytes need = hole.need;
    Bytes room = hole.room;
    while (need > 0) {
      std::size_t pick = Placement::fresh;
      std::size_t overshoot = Placement::fresh;
      for (std::size_t donor = unused; donor < donors.size(); ++donor) {
        if (used[donor]) continue;
        if (donors[donor] <= need) {
          pick = donor;
          break;
        }
        if (donors[donor] <= room && (overshoot == Placement::fresh || donors[donor] < donors[overshoot]))
          overshoot = donor;
      }
      if (pick == Placement::fresh && overshoot != Placement::fresh &&
          !(need <= allowance && need < donors[overshoot] / 2))
        pick = overshoot;
      if (pick == Placement::fresh) {  // and so is all that follows: it only gets smaller
        const Bytes rest = need % chunk;
        if (need > rest) plan.push_back({.at = at, .size = chunk, .count = need / chunk});
        if (rest > 0) plan.push_back({.at = at + need - rest, .size = rest});
        allowance -= std::min(allowance, need);
        break;
      }
      plan.push_back({.at = at, .size = donors[pick], .donor = pick});
      used[pick] = true;
      while (unused < used.size() && used[unused]) ++unused;
      at += donors[pick];
      room -= donors[pick];
      need -= std::min(need, donors[pick]);
    }
  }
}

}  // namespace gmlake
