// Pure policy: where in the addresses does a run of this size need the fewest new mappings, and which chunks fill it?
// Works on plain descriptions of gaps; no driver, no arena, no state. Results go into vectors that the caller keeps
// from one request to the next.
#pragma once

#include <span>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake {

// A piece of a gap: neighbouring inactive extents between two blocks, in address order without holes in between.
struct GapPiece {
  Address at = 0;
  Bytes size = 0;
  bool mapped = false;  // free memory; otherwise addresses only

  Address end() const { return at + size; }
};
using Gap = std::vector<GapPiece>;

struct Window {
  Address at = 0;
  Bytes unmapped = 0;  // bytes, in whole pages, that must be mapped to make it usable
};

// The window of `size` bytes with the fewest unmapped bytes; the lowest of equals. The gap must be large enough.
Window best_window(const Gap& gap, Bytes size);

// A part of a window that has no memory: `need` bytes from `at` on, of which up to `room` may be filled.
struct Void {
  Address at = 0;
  Bytes need = 0;
  Bytes room = 0;
};
void voids(const Gap& gap, const Window& window, Bytes size, std::vector<Void>& result);

// What goes where: a chunk that moves (by its number among the donors), or chunks to be created, side by side.
struct Placement {
  static constexpr std::size_t fresh = SIZE_MAX;
  Address at = 0;
  Bytes size = 0;  // of each
  std::size_t donor = fresh;
  std::size_t count = 1;

  Address end() const { return at + count * size; }
};

// Fills the voids with donors, in their order of preference, and creates what is missing in pieces of at most
// `chunk`. A donor that is too large may overshoot into the room behind; below half of its size a fresh chunk is
// preferred as long as no more than `allowance` fresh bytes are needed.
void fill(std::span<const Void> voids, std::span<const Bytes> donors, Bytes chunk, Bytes allowance,
          std::vector<Placement>& plan);

}  // namespace gmlake
