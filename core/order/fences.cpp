#include "order/fences.h"

#include <algorithm>

namespace gmlake {

Fences::~Fences() {
  auto gone = [this](Event event) { return succeeded(driver_.destroy_event(event)); };
  std::erase_if(events_, gone);
  std::erase_if(events_, gone);  // what the driver refused it may take now
}

Lane Fences::look_up(Stream stream) {
  Lane found = 0;
  while (found < lanes_ && found < crowd && streams_[found].front() != stream) ++found;
  if (found == lanes_) ++lanes_;
  const bool known = std::ranges::find(streams_[found], stream) != streams_[found].end();
  if (!known) streams_[found].push_back(stream);
  if (!known || (gone_ & only(found)) != 0) {  // its handle may be that of a stream that was destroyed
    // It may have used memory before it was heard of, and nobody was made to wait for that yet.
    finished_[found] = idle_;
    for (Lane lane = 0; lane < lanes_; ++lane) {
      done_[lane][found] = idle_;
      done_[found][lane] = std::max(done_[found][lane], finished_[lane]);
    }
    for (Lane lane = 0; lane < lanes_; ++lane) refresh(lane);
  }
  gone_ &= ~only(found);
  last_stream_ = stream;
  last_lane_ = found;
  known_ = true;
  return found;
}

bool Fences::wait(const Clock& clock, Stream stream) {
  const Lane waiter = lane(stream);
  const Moment moment = clock.concerning(waiter);
  if (moment <= behind_[waiter]) return true;
  bool refused = captured(stream);
  each_lane(others(waiter), [&](Lane other) {
    if (refused || moment <= done_[waiter][other]) return;
    recorded_.clear();
    Moment covered = 0;
    bool ordered = record(other, recorded_, covered);
    for (Event event : recorded_) {
      ordered = ordered && driver_.wait(stream, event) == Status::success;
      give_event(event);  // a wait that was enqueued keeps what it waits for, whatever becomes of the event
    }
    refused = !ordered;
    // What one stream of the crowd waited for says nothing about the others.
    if (ordered && waiter != crowd) done_[waiter][other] = covered;
  });
  refresh(waiter);
  if (!refused) ++fences_;
  return !refused;
}

bool Fences::mark(LaneSet lanes, Moment moment, Ticket& ticket) {
  bool refused = false;
  each_lane(lanes, [&](Lane lane) {
    if (refused || moment <= finished_[lane]) return;
    refused = !record(lane, ticket.events, ticket.covers[lane]);
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
    if (status == Status::not_ready) return false;
    if (!succeeded(status)) {
      renew(ticket);
      return false;
    }
    give_event(ticket.events.back());
    ticket.events.pop_back();
  }
  finish(ticket);
  return true;
}

// An event that went into a capture never passes: the lanes are marked anew. Nothing changes if that is refused.
void Fences::renew(Ticket& ticket) {
  LaneSet lanes = 0;
  each_lane(everybody(), [&](Lane lane) { lanes |= ticket.covers[lane] > 0 ? only(lane) : 0; });
  Ticket fresh;
  if (!mark(lanes, now_, fresh)) return;
  for (Event event : ticket.events) give_event(event);
  ticket = std::move(fresh);
}

bool Fences::synchronize(Ticket& ticket) {
  for (Event event : ticket.events)
    if (!succeeded(driver_.synchronize(event))) return false;
  for (Event event : ticket.events) give_event(event);
  ticket.events.clear();
  finish(ticket);
  return true;
}

bool Fences::drain() {
  if (!succeeded(driver_.synchronize_device())) return false;
  idle_ = end_moment();
  Ticket everything;
  everything.covers.fill(idle_);
  finish(everything);
  return true;
}

void Fences::finish(Ticket& ticket) {
  bool news = false;
  each_lane(everybody(), [&](Lane lane) {
    if (ticket.covers[lane] <= finished_[lane]) return;
    news = true;
    finished_[lane] = ticket.covers[lane];
    for (Lane known = 0; known < lanes_; ++known) done_[known][lane] = std::max(done_[known][lane], finished_[lane]);
  });
  for (Lane lane = 0; news && lane < lanes_; ++lane) refresh(lane);
  ticket.covers = {};
  ticket.events.clear();  // and keep the room for the next time
}

void Fences::refresh(Lane lane) {
  behind_[lane] = all_moments;
  each_lane(others(lane), [&](Lane other) { behind_[lane] = std::min(behind_[lane], done_[lane][other]); });
}

bool Fences::capturing() const {
  if (!watching_) return false;
  if (unheard_of_) return true;
  for (const auto& streams : streams_)
    for (Stream stream : streams)
      if (captured(stream)) return true;
  return false;
}

bool Fences::captured(Stream stream) const {
  bool captured = false;
  return watching_ && driver_.is_capturing(stream, captured) == Status::success && captured;
}

// Records an event on every stream of the lane.
bool Fences::record(Lane lane, std::vector<Event>& events, Moment& covered) {
  for (std::size_t i = streams_[lane].size(); i-- > 0 && (gone_ & only(lane)) == 0;) {
    const Stream stream = streams_[lane][i];
    Event event = 0;
    if (captured(stream) || !take_event(event)) return false;
    const Status status = driver_.record(event, stream);
    // Another thread may have begun a capture after the question: the event is then part of that, and whoever waits
    // for it would be too.
    const bool recorded = status == Status::success && !captured(stream);
    (recorded ? events : spare_).push_back(event);
    if (!recorded && (status != Status::invalid_value || !lost(lane, stream))) return false;
  }
  covered = end_moment();
  return true;
}

// A stream that the driver does not know any more was destroyed by its owner. What it was told is waited for with the
// rest of the device; from then on there is nothing to wait for. So it is with a stream of another device, which the
// driver has waited for, until it is heard of again.
bool Fences::lost(Lane lane, Stream stream) {
  if (capturing() || driver_.synchronize_device() != Status::success) return false;
  if (lane == crowd)
    std::erase(streams_[lane], stream);
  else
    gone_ |= only(lane);
  known_ = false;  // look again: another stream may have its handle
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
