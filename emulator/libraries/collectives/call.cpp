// See call.h.
#include "libraries/collectives/call.h"

#include <algorithm>

namespace gmlake::collectives {

std::size_t bytes_read(const Call& call, int rank, int ranks) {
  const std::size_t all = call.share() * static_cast<std::size_t>(ranks);
  switch (call.kind) {
    case Kind::broadcast:
      return rank == call.peer ? call.share() : 0;
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return all;
    case Kind::scatter:
      return rank == call.peer ? all : 0;
    case Kind::receive:
      return 0;
    default:
      return call.share();
  }
}

std::size_t bytes_written(const Call& call, int rank, int ranks) {
  const std::size_t all = call.share() * static_cast<std::size_t>(ranks);
  switch (call.kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return all;
    case Kind::reduce:
      return rank == call.peer ? call.share() : 0;
    case Kind::gather:
      return rank == call.peer ? all : 0;
    case Kind::send:
      return 0;
    default:
      return call.share();
  }
}

std::size_t extent(const Call& call, int ranks) {
  const int root = call.rooted() ? call.peer : 0;
  return std::max(bytes_read(call, root, ranks), bytes_written(call, root, ranks));
}

const char* name_of(Kind kind) {
  static constexpr const char* names[] = {"all-reduce", "reduce", "broadcast", "all-gather", "reduce-scatter",
                                          "all-to-all", "gather", "scatter",   "send",       "receive"};
  return names[static_cast<int>(kind)];
}

std::string describe(const Call& call) {
  const std::string article = name_of(call.kind)[0] == 'a' ? "an " : "a ";
  return article + name_of(call.kind) + " of " + std::to_string(call.count) + " " + name_of(call.type);
}

}  // namespace gmlake::collectives
