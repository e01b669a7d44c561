// See processes.h.
#include "libraries/collectives/processes.h"

#include <algorithm>
#include <cstring>

namespace gmlake::collectives {
namespace {

Description description_of(const Call& call, double factor) {
  return {static_cast<std::int32_t>(call.kind),
          static_cast<std::int32_t>(call.type),
          call.reduces() ? static_cast<std::int32_t>(call.reduction.combine) : 0,
          call.reduces() && call.reduction.scaled ? 1 : 0,
          call.rooted() ? call.peer : 0,
          call.count,
          factor};
}

bool same(const Description& a, const Description& b) {
  return a.kind == b.kind && a.type == b.type && a.combine == b.combine && a.scaled == b.scaled && a.peer == b.peer &&
         a.count == b.count;
}

bool sound(const Description& it) {
  return it.kind >= 0 && it.kind <= static_cast<int>(Kind::receive) && it.type >= 0 && it.type < types;
}

std::string describe(const Description& it) {
  if (!sound(it)) return "something else";
  Call call{static_cast<Kind>(it.kind)};
  call.type = static_cast<Type>(it.type);
  call.count = it.count;
  return describe(call);
}

}  // namespace

std::shared_ptr<Processes> Processes::join(const std::string& name, int ranks, int rank, int device,
                                           std::string& sentence) {
  std::shared_ptr<Board> board = Board::open(name, ranks, rank, sentence);
  return board ? std::make_shared<Processes>(std::move(board), ranks, rank, device) : nullptr;
}

Result Processes::explain(Wait reason, int missing, const std::string& purpose) {
  switch (reason) {
    case Wait::done:
      return Result::success;
    case Wait::gone:
      return fail(Result::remote_error, "rank %d (process %d) is gone, so %s of rank %d cannot be completed", missing,
                  board_->process(missing), purpose.c_str(), rank());
    case Wait::same_process:
      return fail(Result::invalid_usage,
                  "ranks %d and %d of one communicator are in one process, which is emulated for ncclCommInitAll only",
                  rank(), missing);
    case Wait::abandoned:
      return fail(Result::remote_error, "%s of rank %d was given up because the communicator was aborted",
                  purpose.c_str(), rank());
    case Wait::interrupted:
      return fail(Result::system_error, "%s of rank %d was interrupted by a signal while it waited for another process",
                  purpose.c_str(), rank());
    case Wait::too_long:
      break;
  }
  return fail(Result::system_error, "rank %d has waited ten minutes for the other processes of its communicator",
              rank());
}

Result Processes::gather_ranks() {
  return explain(board_->everybody_is_here(), 0, "the start");
}

Result Processes::exchange(const std::string& purpose) {
  board_->publish(round_);
  int missing = 0;
  const Wait result = board_->everybody_published(round_, missing);
  return explain(result, missing, purpose);
}

Result Processes::run(const Call& call) {
  if (error() != Result::success) return error();
  if (const Result here = gather_ranks(); here != Result::success) return here;
  if (call.kind == Kind::send) return send(call);
  if (call.kind == Kind::receive) return receive(call);
  return meet(call);
}

Result Processes::meet(const Call& call) {
  std::lock_guard guard(lock_);
  double factor = 1;
  if (!read_factor(call, factor)) return Result::invalid_argument;
  const Description mine = description_of(call, factor);
  const bool data = carries_data(call);
  std::vector<double> factors(static_cast<std::size_t>(ranks()), 1);
  std::vector<const void*> open(static_cast<std::size_t>(ranks()));
  const std::size_t count = data ? piece_count(call, ranks()) : 1;
  for (std::size_t number = 0; number < count; ++number) {
    ++round_;
    const Piece part = data ? piece(call, ranks(), number) : Piece{0, 0};
    slot(rank()).description = mine;
    if (data && !lay_open(call, rank(), ranks(), part, slot(rank()).data)) return Result::invalid_argument;
    if (const Result met = exchange(std::string("the ") + name_of(call.kind)); met != Result::success) return met;
    if (number == 0) {
      if (const Result agreed = compare(mine, call); agreed != Result::success) return agreed;
      for (int other = 0; other < ranks(); ++other)
        factors[static_cast<std::size_t>(other)] = slot(other).description.factor;
    }
    if (!data) continue;
    for (int other = 0; other < ranks(); ++other) open[static_cast<std::size_t>(other)] = slot(other).data;
    const double* scale = call.reduction.scaled ? factors.data() : nullptr;
    if (!take(call, rank(), ranks(), part, open.data(), scale)) return Result::invalid_argument;
  }
  return Result::success;
}

Result Processes::compare(const Description& mine, const Call& call) {
  for (int other = 0; other < ranks(); ++other) {
    const Description& theirs = slot(other).description;
    if (same(mine, theirs)) continue;
    const std::string here = describe(call), there = describe(theirs);
    const char* differently = here == there ? " with another root or operator" : "";
    return fail(Result::invalid_usage, "rank %d asks for %s while rank %d asks for %s%s", rank(), here.c_str(), other,
                there.c_str(), differently);
  }
  return Result::success;
}

Result Processes::send(const Call& call) {
  std::lock_guard guard(sending_);
  std::vector<std::byte> data(carries_data(call) ? call.share() : 0);
  if (!fetch(data.data(), call.from, data.size())) return Result::invalid_argument;
  if (board_->post(call.peer, description_of(call, 1), data)) return Result::success;
  return fail(Result::system_error, "no room for %s to rank %d: %s", describe(call).c_str(), call.peer,
              std::strerror(errno));
}

Result Processes::receive(const Call& call) {
  std::lock_guard guard(receiving_);
  Description theirs{};
  std::vector<std::byte> data;
  const Wait result = board_->fetch_message(call.peer, theirs, data);
  if (result != Wait::done) return explain(result, call.peer, "the receive");
  if (theirs.count * size_of(sound(theirs) ? static_cast<Type>(theirs.type) : call.type) != call.share())
    return fail(Result::invalid_usage, "rank %d expects %s from rank %d, which made %s", rank(), describe(call).c_str(),
                call.peer, describe(theirs).c_str());
  return deliver(call.to, data.data(), data.size()) ? Result::success : Result::invalid_argument;
}

// Colour and key travel as the fields of a description that nothing else is compared with.
Result Processes::split(int colour, int key, Shared& made) {
  std::lock_guard guard(lock_);
  if (const Result here = gather_ranks(); here != Result::success) return here;
  ++round_;
  slot(rank()).description = {colour, key, 0, 0, 0, 0, 0};
  if (const Result met = exchange("the split"); met != Result::success) return met;
  const std::uint32_t number = children_++;
  if (colour == no_colour) return Result::success;
  std::vector<std::pair<int, int>> members;  // key, rank here
  for (int other = 0; other < ranks(); ++other) {
    const Description& theirs = slot(other).description;
    if (theirs.kind == colour) members.emplace_back(theirs.type, other);
  }
  std::sort(members.begin(), members.end());
  const auto own = std::find(members.begin(), members.end(), std::pair{key, rank()});
  const std::string name = board_->name() + "-" + std::to_string(number) + "." + std::to_string(colour);
  std::string sentence;
  made = join(name, static_cast<int>(members.size()), static_cast<int>(own - members.begin()), device(), sentence);
  return made ? made->gather_ranks() : fail(Result::system_error, "%s", sentence.c_str());
}

Result Processes::shrink(const std::vector<int>& without, Shared& made) {
  std::lock_guard guard(lock_);
  std::string name = board_->name() + "-" + std::to_string(children_++) + ".without";
  for (const int excluded : without) name.append(".").append(std::to_string(excluded));
  const auto before = std::count_if(without.begin(), without.end(), [&](int other) { return other < rank(); });
  std::string sentence;
  made = join(name, ranks() - static_cast<int>(without.size()), rank() - static_cast<int>(before), device(), sentence);
  return made ? made->gather_ranks() : fail(Result::system_error, "%s", sentence.c_str());
}

}  // namespace gmlake::collectives
