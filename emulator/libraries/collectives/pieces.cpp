// See pieces.h.
#include "libraries/collectives/pieces.h"

#include <algorithm>

#include "libraries/collectives/communicator.h"

namespace gmlake::collectives {
namespace {

// What the longest sender sends.
std::size_t longest(const Call& call, int ranks) {
  return bytes_read(call, call.rooted() ? call.peer : 0, ranks);
}

std::byte* at(void* base, std::size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, std::size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

bool everybody_gets_all(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::gather;
}

}  // namespace

std::size_t piece_count(const Call& call, int ranks) {
  return std::max<std::size_t>(1, (longest(call, ranks) + piece_size - 1) / piece_size);
}

Piece piece(const Call& call, int ranks, std::size_t number) {
  const std::size_t offset = number * piece_size;
  return {offset, std::min(piece_size, longest(call, ranks) - offset)};
}

bool lay_open(const Call& call, int rank, int ranks, const Piece& piece, void* open) {
  if (bytes_read(call, rank, ranks) == 0) return true;
  return fetch(open, at(call.from, piece.offset), piece.size);
}

bool take(const Call& call, int rank, int ranks, const Piece& piece, const void* const* open, const double* factors) {
  if (bytes_written(call, rank, ranks) == 0 || piece.size == 0) return true;
  const std::size_t share = call.share();
  if (everybody_gets_all(call.kind)) {
    for (int other = 0; other < ranks; ++other)
      if (!deliver(at(call.to, share * static_cast<std::size_t>(other) + piece.offset), open[other], piece.size))
        return false;
    return true;
  }
  // Of a buffer with one share per rank only the own share matters; other buffers are this rank's from begin to end.
  const bool by_rank = call.kind == Kind::reduce_scatter || call.kind == Kind::all_to_all || call.kind == Kind::scatter;
  const std::size_t begin = by_rank ? share * static_cast<std::size_t>(rank) : 0;
  const std::size_t from = std::max(begin, piece.offset);
  const std::size_t to = std::min(begin + share, piece.offset + piece.size);
  if (from >= to) return true;
  const std::size_t within = from - piece.offset, arrives = from - begin, size = to - from;
  switch (call.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter: {
      std::vector<const void*> contributions;
      for (int other = 0; other < ranks; ++other) contributions.push_back(at(open[other], within));
      std::vector<std::byte> result(size);
      reduce(call.type, call.reduction.combine, size / size_of(call.type), result.data(), contributions.data(), ranks,
             factors);
      return deliver(at(call.to, arrives), result.data(), size);
    }
    case Kind::all_to_all:
      for (int other = 0; other < ranks; ++other)
        if (!deliver(at(call.to, share * static_cast<std::size_t>(other) + arrives), at(open[other], within), size))
          return false;
      return true;
    default:  // broadcast, scatter
      return deliver(at(call.to, arrives), at(open[call.peer], within), size);
  }
}

bool read_factor(const Call& call, double& factor) {
  factor = call.reduction.factor;
  if (call.reduction.on_device == nullptr) return true;
  std::byte stored[8];
  if (!fetch(stored, call.reduction.on_device, size_of(call.type))) return false;
  factor = number(call.type, stored);
  return true;
}

}  // namespace gmlake::collectives
