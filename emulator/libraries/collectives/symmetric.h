// One process stands for one rank of a job: every other rank is taken to make the same calls with the same data. A sum
// is the own data times the number of ranks, a gather so many copies of it. What the others would really hold is
// unknown: a broadcast or scatter from another root leaves what was there, and a receive gives what this rank itself
// sent.
#pragma once

#include "libraries/collectives/communicator.h"

namespace gmlake::collectives {

class Symmetric final : public Communicator {
 public:
  using Communicator::Communicator;

  Result split(int colour, int key, Shared& made) override;
  Result shrink(const std::vector<int>& without, Shared& made) override;

 private:
  Result run(const Call& call) override;
  bool move_data(const Call& call);
  Result send(const Call& call);
  bool receive(const Call& call);
};

// Size and rank of the next communicator that a split makes: its call tells neither. 0: as the one that is split.
void announce_group(int ranks, int rank);

}  // namespace gmlake::collectives
