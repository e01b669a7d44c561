// See clique.h.
#include "libraries/collectives/clique.h"

#include <algorithm>

#include "libraries/collectives/pieces.h"

namespace gmlake::collectives {

std::vector<Shared> Clique::make(const std::vector<int>& devices) {
  const int ranks = static_cast<int>(devices.size());
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<Shared> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_shared<Clique>(meeting, ranks, rank, devices[static_cast<std::size_t>(rank)]));
  return all;
}

Result Clique::split(int, int, Shared&) {
  return static_cast<Result>(gmlake_device_unimplemented("ncclCommSplit", static_cast<int>(Result::invalid_usage)));
}

Result Clique::shrink(const std::vector<int>&, Shared&) {
  return static_cast<Result>(gmlake_device_unimplemented("ncclCommShrink", static_cast<int>(Result::invalid_usage)));
}

Result Clique::run(const Call& call) {
  if (call.one_to_one()) return pass(call);
  Meeting::Calls calls;
  {
    std::lock_guard guard(meeting_->lock);
    const std::uint64_t number = meeting_->made[static_cast<std::size_t>(rank())]++;
    Meeting::Calls& gathered = meeting_->incomplete[number];
    gathered.resize(static_cast<std::size_t>(ranks()));
    gathered[static_cast<std::size_t>(rank())] = call;
    if (!std::all_of(gathered.begin(), gathered.end(), [](const auto& one) { return one.has_value(); }))
      return Result::success;
    calls = std::move(gathered);
    meeting_->incomplete.erase(number);
  }
  return complete(calls);
}

Result Clique::complete(const Meeting::Calls& calls) {
  const Call& first = *calls.front();
  std::vector<double> factors(calls.size());
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const Call& call = *calls[rank];
    if (call.kind != first.kind || call.count != first.count || call.type != first.type)
      return fail(Result::invalid_usage, "rank 0 asks for %s while rank %zu asks for %s", describe(first).c_str(), rank,
                  describe(call).c_str());
    if (!read_factor(call, factors[rank])) return Result::invalid_argument;
  }
  if (!carries_data(first)) return Result::success;
  std::vector<std::vector<std::byte>> buffers(calls.size(),
                                              std::vector<std::byte>(std::min(piece_size, extent(first, ranks()))));
  std::vector<const void*> open;
  for (const auto& buffer : buffers) open.push_back(buffer.data());
  for (std::size_t number = 0; number < piece_count(first, ranks()); ++number) {
    const Piece part = piece(first, ranks(), number);
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (!lay_open(*calls[index], rank, ranks(), part, buffers[index].data())) return Result::invalid_argument;
    }
    for (int rank = 0; rank < ranks(); ++rank)
      if (!take(*calls[static_cast<std::size_t>(rank)], rank, ranks(), part, open.data(),
                first.reduction.scaled ? factors.data() : nullptr))
        return Result::invalid_argument;
  }
  return Result::success;
}

Result Clique::pass(const Call& call) {
  std::lock_guard guard(meeting_->lock);
  if (call.kind == Kind::send) {
    std::vector<std::byte> data(carries_data(call) ? call.share() : 0);
    if (!fetch(data.data(), call.from, data.size())) return Result::invalid_argument;
    meeting_->messages[{rank(), call.peer}].push_back(std::move(data));
    return Result::success;
  }
  auto& waiting = meeting_->messages[{call.peer, rank()}];
  if (waiting.empty())
    return fail(Result::invalid_usage, "%s from rank %d comes before its send; group the calls", describe(call).c_str(),
                call.peer);
  const std::vector<std::byte> data = std::move(waiting.front());
  waiting.pop_front();
  return deliver(call.to, data.data(), std::min(data.size(), call.share())) ? Result::success
                                                                            : Result::invalid_argument;
}

}  // namespace gmlake::collectives
