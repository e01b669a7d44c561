// Every rank is a process of its own; they meet on a board in shared memory. All data moves when there is no data limit
// (shadow compute), else that of operations within the limit; larger ones only meet, and check that all ask for the
// same.
#pragma once

#include <mutex>

#include "libraries/collectives/board.h"
#include "libraries/collectives/communicator.h"

namespace gmlake::collectives {

class Processes final : public Communicator {
 public:
  // Does not wait for the others yet. Empty, with a sentence, on failure.
  static std::shared_ptr<Processes> join(const std::string& board, int ranks, int rank, int device,
                                         std::string& sentence);

  Processes(std::shared_ptr<Board> board, int ranks, int rank, int device)
      : Communicator(ranks, rank, device), board_(std::move(board)) {}

  Result gather_ranks() override;
  Result split(int colour, int key, Shared& made) override;
  Result shrink(const std::vector<int>& without, Shared& made) override;
  void leave() override { board_->leave(); }

 private:
  Result run(const Call& call) override;
  Result meet(const Call& call);
  Result send(const Call& call);
  Result receive(const Call& call);
  // The own slot of this round is filled; afterwards those of all ranks may be read, until the next exchange.
  Result exchange(const std::string& purpose);
  Result compare(const Description& mine, const Call& call);
  Result explain(Wait reason, int missing, const std::string& purpose);
  Slot& slot(int rank) { return board_->slot(rank, round_); }

  std::shared_ptr<Board> board_;
  std::mutex lock_;                 // rounds and children
  std::mutex sending_, receiving_;  // a thread may send while another waits for a message
  std::uint32_t round_ = 0;
  std::uint32_t children_ = 0;  // communicators made from this one
};

}  // namespace gmlake::collectives
