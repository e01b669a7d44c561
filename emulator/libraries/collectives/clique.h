// Several devices of one process, one rank each (ncclCommInitAll; data parallelism in threads). The calls of the ranks
// belong together by their number; the last of them moves the data of all. Nobody waits: a program has to group the
// calls or to make them from several threads, as with NCCL.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "libraries/collectives/communicator.h"

namespace gmlake::collectives {

class Clique final : public Communicator {
 public:
  // One communicator per device.
  static std::vector<Shared> make(const std::vector<int>& devices);

  struct Meeting {
    explicit Meeting(int ranks) : made(static_cast<std::size_t>(ranks)) {}

    using Calls = std::vector<std::optional<Call>>;
    std::mutex lock;
    std::vector<std::uint64_t> made;                                             // how many calls each rank has made
    std::map<std::uint64_t, Calls> incomplete;                                   // by number
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;  // by sender and receiver
  };

  Clique(std::shared_ptr<Meeting> meeting, int ranks, int rank, int device)
      : Communicator(ranks, rank, device), meeting_(std::move(meeting)) {}

  Result split(int colour, int key, Shared& made) override;
  Result shrink(const std::vector<int>& without, Shared& made) override;

 private:
  Result run(const Call& call) override;
  Result pass(const Call& call);
  Result complete(const Meeting::Calls& calls);

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gmlake::collectives
