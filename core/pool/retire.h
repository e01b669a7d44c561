// Old addresses of chunks that have moved on. The work that used them may still be running, and no stream orders an
// unmap: each span waits here for its ticket. `done` tells the owner of the addresses that nothing is mapped any more.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "memory/chunks.h"
#include "order/fences.h"

namespace gmlake {

class Retirement {
 public:
  using Done = std::function<void(Address at, Bytes size)>;

  Retirement(Chunks& chunks, Fences& fences, Done done) : chunks_(chunks), fences_(fences), done_(std::move(done)) {}

  // The device must be idle.
  ~Retirement() {
    for (const Entry& entry : queue_)
      for (const Span& span : entry.spans) {
        chunks_.undo(span.at, span.size);
        done_(span.at, span.size);
      }
  }
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;

  void add(Fences::Ticket ticket, std::vector<Span> spans) {
    if (!ticket.events.empty() || !spans.empty()) queue_.push_back({std::move(ticket), std::move(spans)});
  }

  // Unmaps what has passed. With `wait`, waits for it first. False: something is left.
  bool settle(bool wait) {
    chunks_.retry();
    while (!queue_.empty()) {
      Entry& entry = queue_.front();
      if (!(wait ? fences_.synchronize(entry.ticket) : fences_.passed(entry.ticket))) return false;
      while (!entry.spans.empty()) {
        const Span span = entry.spans.back();
        if (!chunks_.unmap(span.at, span.size)) return false;
        entry.spans.pop_back();
        done_(span.at, span.size);
      }
      queue_.pop_front();
    }
    return true;
  }

  bool empty() const { return queue_.empty(); }
  bool all_unmapped() const {  // what is left, if anything, are tickets without addresses
    return std::ranges::all_of(queue_, [](const Entry& entry) { return entry.spans.empty(); });
  }

 private:
  struct Entry {
    Fences::Ticket ticket;
    std::vector<Span> spans;
  };
  Chunks& chunks_;
  Fences& fences_;
  Done done_;
  std::deque<Entry> queue_;
};

}  // namespace gmlake
