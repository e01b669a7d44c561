// A communicator: who takes part and how data gets from one to the other. Three kinds exist. Symmetric: this process
// stands for one rank and every other rank is taken to do and hold the same. Processes: every rank is a process of its
// own. Clique: all ranks are devices of this one process. Entry points hand out a Communicator* as NCCL's handle.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "libraries/collectives/call.h"

namespace gmlake::collectives {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int ranks, int rank, int device) : ranks_(ranks), rank_(rank), device_(device) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int device() const { return device_; }

  // Checks the call and gives it to its stream. With a real peer missing this waits for it, because work of a stream
  // takes effect when it is enqueued.
  Result launch(const Call& call, device::StreamHandle stream);

  // A part of this communicator; `made` stays empty for a rank without colour.
  virtual Result split(int colour, int key, std::shared_ptr<Communicator>& made) = 0;
  // This communicator without some of its ranks; only the others call it.
  virtual Result shrink(const std::vector<int>& without, std::shared_ptr<Communicator>& made) = 0;
  // Waits until every rank is there.
  virtual Result gather_ranks() { return Result::success; }
  // This rank takes no further part; whoever waits here gives up.
  virtual void leave() {}

  Result error() const { return error_.load(); }
  // Remembers the first error for ncclCommGetAsyncError, and says what happened.
  [[gnu::format(printf, 3, 4)]] Result fail(Result result, const char* format, ...);

  std::atomic<bool> suspended{false};

 protected:
  // Moves the data; called when the stream gets there, which is now or, for a captured graph, at every launch.
  virtual Result run(const Call& call) = 0;

  // Beyond the data limit an operation only accounts.
  bool carries_data(const Call& call) const { return extent(call, ranks_) <= device::configuration().data_limit; }

 private:
  const int ranks_, rank_, device_;
  std::atomic<Result> error_{Result::success};
};

using Shared = std::shared_ptr<Communicator>;

// Between handles and objects. A handle is valid from `publish` to `withdraw`.
void* publish(Shared communicator);
Shared find(void* handle);  // empty if there is no such communicator
Shared withdraw(void* handle);

// The last thing that went wrong, for ncclGetLastError.
std::string last_error();
void set_last_error(std::string sentence);

// Device memory as the work of a collective sees it: not a copy of the program's, so nobody is told that it was read.
bool fetch(void* scratch, const void* from, std::size_t size);
bool deliver(void* to, const void* scratch, std::size_t size);

}  // namespace gmlake::collectives
