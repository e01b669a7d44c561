// An operation in pieces that fit a buffer: every rank lays a piece of what it sends open, then every rank takes from
// all of them what it is to receive. Where the open pieces are, in shared memory or in this process, is the caller's
// affair.
#pragma once

#include <cstddef>
#include <vector>

#include "libraries/collectives/call.h"

namespace gmlake::collectives {

inline constexpr std::size_t piece_size = std::size_t{64} << 10;  // a multiple of every element's size

struct Piece {
  std::size_t offset;  // in what each rank sends
  std::size_t size;
};

// At least one, so that ranks meet even for an empty operation.
std::size_t piece_count(const Call& call, int ranks);
Piece piece(const Call& call, int ranks, std::size_t number);

// Fills `open` with this rank's part of the piece, if it has one.
bool lay_open(const Call& call, int rank, int ranks, const Piece& piece, void* open);
// Writes to this rank's receive buffer what the open pieces of all ranks (in their order) hold for it.
bool take(const Call& call, int rank, int ranks, const Piece& piece, const void* const* open, const double* factors);

// The factor of this rank's contribution, by now surely known.
bool read_factor(const Call& call, double& factor);

}  // namespace gmlake::collectives
