// See symmetric.h.
#include "libraries/collectives/symmetric.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "libraries/collectives/pieces.h"

namespace gmlake::collectives {
namespace {

// Sends that nobody receives must not pile up: a pipeline has a few under way, never so many.
constexpr std::size_t most_messages = 256;

// Of all communicators together, because PyTorch makes one for every pair of ranks: what is sent to the right neighbour
// and what comes from the left one belong to different ones.
struct Message {
  const Communicator* communicator;
  int peer;
  std::size_t size;
  std::vector<std::byte> data;  // empty if too large to be carried
};

struct Sent {
  std::mutex lock;
  std::deque<Message> waiting;  // not received yet
};

Sent& sent() {
  static Sent& messages = *new Sent;
  return messages;
}

struct Group {
  std::mutex lock;
  int ranks = 0;
  int rank = 0;
};

Group& announced() {
  static Group& group = *new Group;
  return group;
}

std::byte* at(void* base, std::size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, std::size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

}  // namespace

void announce_group(int ranks, int rank) {
  std::lock_guard guard(announced().lock);
  announced().ranks = ranks;
  announced().rank = rank;
}

Result Symmetric::split(int colour, int, Shared& made) {
  if (colour == no_colour) return Result::success;
  std::lock_guard guard(announced().lock);
  Group& group = announced();
  const int size = group.ranks > 0 ? group.ranks : ranks();
  const int number = group.ranks > 0 ? group.rank : rank();
  group.ranks = 0;
  made = std::make_shared<Symmetric>(size, number, device());
  return Result::success;
}

Result Symmetric::shrink(const std::vector<int>& without, Shared& made) {
  const auto before = std::count_if(without.begin(), without.end(), [&](int other) { return other < rank(); });
  made = std::make_shared<Symmetric>(ranks() - static_cast<int>(without.size()), rank() - static_cast<int>(before),
                                     device());
  return Result::success;
}

Result Symmetric::run(const Call& call) {
  if (call.kind == Kind::send) return send(call);
  if (call.kind == Kind::receive) return receive(call) ? Result::success : Result::invalid_argument;
  return !carries_data(call) || move_data(call) ? Result::success : Result::invalid_argument;
}

bool Symmetric::move_data(const Call& call) {
  const std::size_t share = call.share();
  const bool writes = bytes_written(call, rank(), ranks()) > 0;
  if (!writes || share == 0) return true;
  if (call.rooted() && call.peer != rank() && (call.kind == Kind::scatter || call.kind == Kind::broadcast)) return true;

  // Where the data for this rank begins in the buffer of whoever sends it.
  const bool by_rank = call.kind == Kind::reduce_scatter || call.kind == Kind::all_to_all || call.kind == Kind::scatter;
  std::vector<std::byte> data(share);
  if (!fetch(data.data(), at(call.from, by_rank ? share * static_cast<std::size_t>(rank()) : 0), share)) return false;
  if (call.reduces()) {
    double factor;
    if (!read_factor(call, factor)) return false;
    reduce_equal(call.type, call.reduction.combine, call.count, data.data(), ranks(),
                 call.reduction.scaled ? &factor : nullptr);
  }
  const bool copies = call.kind == Kind::all_gather || call.kind == Kind::all_to_all || call.kind == Kind::gather;
  for (int other = 0; other < (copies ? ranks() : 1); ++other)
    if (!deliver(at(call.to, share * static_cast<std::size_t>(other)), data.data(), share)) return false;
  return true;
}

Result Symmetric::send(const Call& call) {
  if (call.one_way) return Result::success;
  Message message{this, call.peer, call.share(), {}};
  if (carries_data(call)) {
    message.data.resize(call.share());
    if (!fetch(message.data.data(), call.from, call.share())) return Result::invalid_argument;
  }
  std::lock_guard guard(sent().lock);
  if (sent().waiting.size() == most_messages) sent().waiting.pop_front();
  sent().waiting.push_back(std::move(message));
  return Result::success;
}

// What another rank sends to this one is what this rank sends to itself if it does (an all-to-all made of sends), else
// the oldest message of the same size (a ring, a pipeline), from the same communicator if there is one. Without any the
// memory stays as it is. Either way the pair of this receive, the own send to that rank, is done with.
bool Symmetric::receive(const Call& call) {
  std::lock_guard guard(sent().lock);
  std::deque<Message>& waiting = sent().waiting;
  const auto first = [&](auto matches) { return std::find_if(waiting.begin(), waiting.end(), matches); };
  const auto fits = [&](const Message& message) { return message.size == call.share(); };
  const auto ours = [&](const Message& message) { return message.communicator == this; };
  auto used = first([&](const Message& message) { return fits(message) && ours(message) && message.peer == rank(); });
  const bool from_self = used != waiting.end();
  if (!from_self) used = first([&](const Message& message) { return fits(message) && ours(message); });
  if (used == waiting.end()) used = first(fits);
  if (used == waiting.end()) return true;
  const bool delivered = used->data.empty() || deliver(call.to, used->data.data(), call.share());
  if (from_self && call.peer != rank())
    used = first([&](const Message& message) { return ours(message) && message.peer == call.peer; });
  if (used != waiting.end()) waiting.erase(used);
  return delivered;
}

}  // namespace gmlake::collectives
