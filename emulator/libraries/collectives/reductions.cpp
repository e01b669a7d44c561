// See reductions.h.
#include "libraries/collectives/reductions.h"

#include <map>
#include <mutex>

namespace gmlake::collectives {
namespace {

struct Made {
  Type type;
  Reduction reduction;
};

struct State {
  std::mutex lock;
  std::map<std::pair<void*, int>, Made> made;
};

State& state() {
  static State& alive = *new State;
  return alive;
}

}  // namespace

int make_scaled_sum(void* communicator, Type type, const void* factor, Residence residence) {
  Reduction reduction;
  reduction.scaled = true;
  if (residence == Residence::device)
    reduction.on_device = factor;
  else
    reduction.factor = number(type, factor);
  std::lock_guard guard(state().lock);
  int free = built_in_reductions;
  while (state().made.contains({communicator, free})) ++free;
  state().made[{communicator, free}] = {type, reduction};
  return free;
}

bool remove_reduction(void* communicator, int number) {
  std::lock_guard guard(state().lock);
  return state().made.erase({communicator, number}) == 1;
}

bool find_reduction(void* communicator, int number, Type type, Reduction& reduction) {
  if (number >= 0 && number < built_in_reductions) {
    reduction.combine = static_cast<Combine>(number);
    return true;
  }
  std::lock_guard guard(state().lock);
  const auto found = state().made.find({communicator, number});
  if (found == state().made.end() || found->second.type != type) return false;
  reduction = found->second.reduction;
  return true;
}

void remove_reductions(void* communicator) {
  std::lock_guard guard(state().lock);
  std::erase_if(state().made, [&](const auto& one) { return one.first.first == communicator; });
}

}  // namespace gmlake::collectives
