// See group.h.
#include "libraries/collectives/group.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace gmlake::collectives::group {
namespace {

struct Pending {
  Shared communicator;
  Call call;
  device::StreamHandle stream;

  int place() const {
    if (call.kind == Kind::send) return 0;
    return call.kind == Kind::receive && call.peer == communicator->rank() ? 2 : 1;
  }
};

struct Group {
  int depth = 0;
  std::vector<Pending> calls;
  std::vector<Shared> made;
};

thread_local Group current;

// Marks the sends of a communicator that go to several ranks while nothing is received.
void mark_scatters(std::vector<Pending>& calls) {
  std::map<const Communicator*, std::set<int>> receivers;
  std::set<const Communicator*> receiving;
  for (const Pending& pending : calls) {
    if (pending.call.kind == Kind::send) receivers[pending.communicator.get()].insert(pending.call.peer);
    if (pending.call.kind == Kind::receive) receiving.insert(pending.communicator.get());
  }
  for (Pending& pending : calls) {
    const Communicator* communicator = pending.communicator.get();
    pending.call.one_way =
        pending.call.kind == Kind::send && receivers[communicator].size() > 1 && !receiving.contains(communicator);
  }
}

}  // namespace

void start() {
  ++current.depth;
}
bool open() {
  return current.depth > 0;
}

Result end() {
  if (current.depth == 0) {
    set_last_error("ncclGroupEnd without ncclGroupStart");
    return Result::invalid_usage;
  }
  if (--current.depth > 0) return Result::success;
  std::vector<Pending> calls = std::exchange(current.calls, {});
  const std::vector<Shared> made = std::exchange(current.made, {});
  Result first = Result::success;
  const auto keep = [&](Result result) {
    if (first == Result::success) first = result;
  };
  for (const Shared& communicator : made) keep(communicator->gather_ranks());
  mark_scatters(calls);
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Pending& a, const Pending& b) { return a.place() < b.place(); });
  for (const Pending& pending : calls) keep(pending.communicator->launch(pending.call, pending.stream));
  return first;
}

Result submit(Shared communicator, const Call& call, device::StreamHandle stream) {
  if (!open()) return communicator->launch(call, stream);
  current.calls.push_back({std::move(communicator), call, stream});
  return Result::success;
}

Result gather_ranks(Shared communicator) {
  if (!open()) return communicator->gather_ranks();
  current.made.push_back(std::move(communicator));
  return Result::success;
}

}  // namespace gmlake::collectives::group
