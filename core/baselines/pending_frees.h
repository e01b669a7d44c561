// Blocks that the client has released while other streams may still use them: an event is recorded on each such stream
// at the release, or after the capture that it falls into, and the block is free when all of them have passed. Events
// are kept for the next time. The block type needs `used_on`, the streams, and an int `events`, how many it waits for.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "baselines/failures.h"
#include "driver/driver.h"

namespace gmlake {

template <typename Block>
class PendingFrees {
 public:
  explicit PendingFrees(Driver& driver) : driver_(driver) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  ~PendingFrees() {
    for (auto& [stream, queue] : queues_)
      for (auto& [event, block] : queue) spare_.push_back(event);
    drop_spares();
  }

  // A block that other streams used was released. Nothing has changed when this throws.
  void defer(Block* block, bool capturing) {
    if (capturing)
      unrecorded_.push_back(block);
    else
      record(block);
  }

  // Calls done(block) for every block whose last event has passed. A stream's queue is looked at in order, up to the
  // first event that has not passed.
  template <typename Done>
  void poll(Done done) {
    record_rest();
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty()) {
        const Status status = driver_.query(queue.front().first);
        if (status == Status::not_ready) break;
        expect_success(status, "query");
        finish_first(queue, done);
      }
    }
  }

  // Waits for all of them.
  template <typename Done>
  void wait(Done done) {
    record_rest();
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty()) {
        expect_success(driver_.synchronize(queue.front().first), "synchronize");
        finish_first(queue, done);
      }
    }
  }

  void drop_spares() {
    for (const Event event : spare_) (void)driver_.destroy_event(event);
    spare_.clear();
  }

 private:
  using Queue = std::deque<std::pair<Event, Block*>>;

  void record(Block* block) {
    std::vector<Event> events;
    try {
      for (const Stream stream : block->used_on) {
        events.push_back(take_event());
        expect_success(driver_.record(events.back(), stream), "record");
      }
    } catch (...) {
      spare_.insert(spare_.end(), events.begin(), events.end());
      throw;
    }
    for (std::size_t i = 0; i < events.size(); ++i) queues_[block->used_on[i]].emplace_back(events[i], block);
    block->events += static_cast<int>(events.size());
    block->used_on.clear();
  }

  void record_rest() {
    for (; !unrecorded_.empty(); unrecorded_.pop_back()) record(unrecorded_.back());
  }

  template <typename Done>
  void finish_first(Queue& queue, Done& done) {
    const auto [event, block] = queue.front();
    queue.pop_front();
    spare_.push_back(event);
    if (--block->events == 0) done(block);
  }

  Event take_event() {
    Event event = 0;
    if (spare_.empty()) {
      expect_success(driver_.create_event(event), "create_event");
    } else {
      event = spare_.back();
      spare_.pop_back();
    }
    return event;
  }

  Driver& driver_;
  std::map<Stream, Queue> queues_;
  std::vector<Event> spare_;
  std::vector<Block*> unrecorded_;  // released during a capture
};

}  // namespace gmlake
