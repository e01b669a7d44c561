#include "order/fences.h"

#include <algorithm>

namespace gmlake {

Fences::~Fences() {
  auto gone = [this](Event event) {
    const Status status = driver_.destroy_event(event);
    return status == Status::success || status == Status::deinitialized;
  };
  std::erase_if(events_, gone);
  std::erase_if(events_, gone);  // what the driver refused it may take now
}

Lane Fences::look_up(Stream stream) {
  Lane found = crowd;
  for (Lane lane = 0; lane < crowd; ++lane) {
    if (streams_[lane].empty()) streams_[lane].push_back(stream);
    if (streams_[lane].front() == stream) {
      found = lane;
      break;
    }
  }
  if (found == crowd && std::ranges::find(streams_[crowd], stream) == streams_[crowd].end())
    streams_[crowd].push_back(stream);
  last_stream_ = stream;
  last_lane_ = found;
  known_ = true;
  return found;
}

bool Fences::wait(const Clock& clock, Stream stream) {
  const Lane waiter = lane(stream);
  bool waited = false;
  bool refused = false;
  each_lane(clock.lanes(), [&](Lane other) {
    if (refused || clock.epoch(other) <= done_[waiter][other]) return;
    recorded_.clear();
    bool ordered = !captured(stream) && record(other, recorded_);
    for (Event event : recorded_) {
      ordered = ordered && driver_.wait(stream, event) == Status::success;
      give_event(event);  // a wait that was enqueued keeps what it waits for, whatever becomes of the event
    }
    refused = !ordered;
    if (refused) return;
    waited = true;
    // What one stream of the crowd waited for says nothing about the others.
    if (waiter != crowd) done_[waiter][other] = epoch_[other] - 1;
  });
  if (waited && !refused) ++fences_;
  return !refused;
}

bool Fences::mark(const Clock& clock, Ticket& ticket) {
  bool refused = false;
  each_lane(clock.lanes(), [&](Lane lane) {
    if (refused || clock.epoch(lane) <= finished_[lane]) return;
    refused = !record(lane, ticket.events);
    ticket.epochs[lane] = epoch_[lane] - 1;
  });
  if (!refused) return true;
  for (Event event : ticket.events) give_event(event);
  ticket = {};
  return false;
}

bool Fences::passed(Ticket& ticket) {
  if (!ticket.events.empty() && capturing()) return false;
  while (!ticket.events.empty()) {
    const Status status = driver_.query(ticket.events.back());
    if (status != Status::success && status != Status::deinitialized) return false;
    give_event(ticket.events.back());
    ticket.events.pop_back();
  }
  finish(ticket);
  return true;
}

bool Fences::synchronize(Ticket& ticket) {
  for (Event event : ticket.events) {
    const Status status = driver_.synchronize(event);
    if (status != Status::success && status != Status::deinitialized) return false;
  }
  for (Event event : ticket.events) give_event(event);
  ticket.events.clear();
  finish(ticket);
  return true;
}

bool Fences::drain() {
  Clock clock;
  everything(clock);
  Ticket ticket;
  if (!mark(clock, ticket)) return false;
  if (synchronize(ticket)) return true;
  for (Event event : ticket.events) give_event(event);
  return false;
}

void Fences::finish(Ticket& ticket) {
  for (Lane lane = 0; lane < lane_count; ++lane) {
    if (ticket.epochs[lane] <= finished_[lane]) continue;
    finished_[lane] = ticket.epochs[lane];
    for (auto& known : done_) known[lane] = std::max(known[lane], finished_[lane]);
  }
  ticket.epochs = {};
  ticket.events.clear();  // and keep the room for the next time
}

bool Fences::capturing() const {
  if (!watching_) return false;
  for (const auto& streams : streams_)
    for (Stream stream : streams)
      if (captured(stream)) return true;
  return false;
}

bool Fences::captured(Stream stream) const {
  bool captured = false;
  return watching_ && driver_.is_capturing(stream, captured) == Status::success && captured;
}

void Fences::everything(Clock& clock) const {
  for (Lane lane = 0; lane < lane_count; ++lane)
    if (!streams_[lane].empty()) clock.set(lane, epoch_[lane]);
}

// Records an event on every stream of the lane and ends its epoch.
bool Fences::record(Lane lane, std::vector<Event>& events) {
  for (Stream stream : streams_[lane]) {
    Event event = 0;
    if (captured(stream) || !take_event(event)) return false;
    if (driver_.record(event, stream) != Status::success) {
      give_event(event);
      return false;
    }
    events.push_back(event);
  }
  ++epoch_[lane];
  return true;
}

bool Fences::take_event(Event& event) {
  if (spare_.empty()) {
    if (driver_.create_event(event) != Status::success) return false;
    events_.push_back(event);
    return true;
  }
  event = spare_.back();
  spare_.pop_back();
  return true;
}

}  // namespace gmlake
