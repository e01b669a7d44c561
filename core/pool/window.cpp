#include "pool/window.h"

#include <algorithm>

#include "base/units.h"

namespace gmlake {
namespace {

// The unmapped bytes of [at, at + size) in whole pages.
Bytes unmapped_bytes(const Gap& gap, Address at, Bytes size, Bytes page) {
  const Address end = at + size;
  auto piece = std::ranges::upper_bound(gap, at, {}, &GapPiece::at) - 1;
  Bytes bytes = 0;
  for (; piece != gap.end() && piece->at < end; ++piece)
    if (!piece->mapped)
      bytes += round_up(std::min(end, piece->end()), page) - round_down(std::max(at, piece->at), page);
  return bytes;
}

}  // namespace

std::optional<Window> best_window(std::span<const Gap> gaps, Bytes size, Bytes page) {
  std::optional<Window> best;
  for (std::size_t number = 0; number < gaps.size(); ++number) {
    const Gap& gap = gaps[number];
    const Address first = gap.front().at;
    const Address end = gap.back().end();
    if (end - first < size) continue;
    auto consider = [&](Address at) {
      if (at < first || at > end - size) return;
      const Window window{number, at, unmapped_bytes(gap, at, size, page)};
      if (!best || window.unmapped < best->unmapped || (window.unmapped == best->unmapped && at < best->at))
        best = window;
    };
    // The fewest unmapped bytes are in a window that begins or ends with a piece.
    for (const GapPiece& piece : gap) {
      consider(piece.at);
      if (piece.end() >= size) consider(piece.end() - size);
    }
  }
  return best;
}

std::vector<Void> voids(const Gap& gap, const Window& window, Bytes size, Bytes page) {
  std::vector<Void> result;
  const Address end = window.at + size;
  for (const GapPiece& piece : gap) {
    if (piece.mapped || piece.end() <= window.at || piece.at >= end) continue;
    const Address from = round_down(std::max(window.at, piece.at), page);
    result.push_back({from, round_up(std::min(end, piece.end()), page) - from, piece.end() - from});
  }
  return result;
}

std::vector<Placement> fill(std::span<const Void> voids, std::span<const Bytes> donors, Bytes chunk, Bytes allowance) {
  std::vector<Placement> plan;
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
      const Bytes size = pick == Placement::fresh ? std::min(need, chunk) : donors[pick];
      plan.push_back({at, size, pick});
      if (pick == Placement::fresh)
        allowance -= std::min(allowance, size);
      else
        used[pick] = true;
      while (unused < used.size() && used[unused]) ++unused;
      at += size;
      room -= size;
      need -= std::min(need, size);
    }
  }
  return plan;
}

}  // namespace gmlake
