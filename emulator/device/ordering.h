// What is known to happen before what: a vector clock per stream, event and host thread. Used to find accesses that
// nothing orders (hazards.h) and streams that never joined a capture again. Plain values, no locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace gmlake::device {

using StreamId = std::uint32_t;
using Epoch = std::uint64_t;

class Ordering {
 public:
  void advance(StreamId stream) { ++epochs_[stream]; }
  Epoch epoch(StreamId stream) const {
    const auto found = epochs_.find(stream);
    return found == epochs_.end() ? 0 : found->second;
  }
  void merge(const Ordering& other) {
    for (const auto& [stream, epoch] : other.epochs_) {
      Epoch& mine = epochs_[stream];
      mine = std::max(mine, epoch);
    }
  }
  bool knows(StreamId stream, Epoch epoch) const { return this->epoch(stream) >= epoch; }
  void clear() { epochs_.clear(); }

 private:
  std::map<StreamId, Epoch> epochs_;
};

}  // namespace gmlake::device
