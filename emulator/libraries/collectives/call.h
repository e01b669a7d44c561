// One operation of one rank, as the program asked for it, and how many bytes it reads and writes. Knows nothing of the
// other ranks except how many there are.
#pragma once

#include <cstddef>
#include <string>

#include "libraries/collectives/abi.h"
#include "libraries/collectives/arithmetic.h"

namespace gmlake::collectives {

enum class Kind : int {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  receive,
};

struct Reduction {
  Combine combine = Combine::sum;
  bool scaled = false;              // each contribution is multiplied first,
  double factor = 1;                // by this,
  const void* on_device = nullptr;  // or by the number that stands here when the work runs
};

struct Call {
  Kind kind;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as the entry point counts: elements of one rank's share
  int peer = 0;           // the root, or the other side of a send or receive
  Type type = Type::uint8;
  Reduction reduction = {};
  bool one_way = false;  // a send to many without a receive beside it: a scatter, which nobody answers in kind

  std::size_t share() const { return count * size_of(type); }
  bool one_to_one() const { return kind == Kind::send || kind == Kind::receive; }
  bool reduces() const { return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter; }
  bool rooted() const {
    return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
  }
};

// What this rank reads from `from` and writes to `to`.
std::size_t bytes_read(const Call& call, int rank, int ranks);
std::size_t bytes_written(const Call& call, int rank, int ranks);
// The larger of both over all ranks: the same number everywhere, by which it is decided whether data moves.
std::size_t extent(const Call& call, int ranks);

const char* name_of(Kind kind);
// "an all-reduce of 12 float32"
std::string describe(const Call& call);

}  // namespace gmlake::collectives
