#include "driver/simulated/timeline.h"

#include <algorithm>

namespace gmlake {

Event Timeline::create() {
  events_.emplace_back();
  ++event_count_;
  return events_.size();
}

Status Timeline::destroy(Event event) {
  Recorded* found = find(event);
  if (found == nullptr) return Status::invalid_value;
  found->exists = false;
  --event_count_;
  return Status::success;
}

Status Timeline::record(Event event, Stream stream) {
  Recorded* found = find(event);
  if (found == nullptr) return Status::invalid_value;
  begin_late(stream);
  found->captured = capturing(stream);
  if (!found->captured) static_cast<Point&>(*found) = {stream, ++lane(stream).issued};
  return Status::success;
}

Status Timeline::query(Event event) {
  Recorded* found = find(event);
  if (found == nullptr) return Status::invalid_value;
  if (found->captured) return Status::unknown;
  return reached(*found) ? Status::success : Status::not_ready;
}

Status Timeline::wait(Stream stream, Event event) {
  Recorded* found = find(event);
  if (found == nullptr) return Status::invalid_value;
  begin_late(stream);
  if (found->captured) capturing_.insert(stream);
  if (capturing(stream)) return found->captured ? Status::success : Status::unknown;
  const Point awaited = *found;
  if (awaited.stream == stream || reached(awaited)) return Status::success;
  Lane& lane = this->lane(stream);
  lane.barriers.push_back({++lane.issued, awaited});
  return Status::success;
}

Status Timeline::synchronize(Event event) {
  Recorded* found = find(event);
  if (found == nullptr) return Status::invalid_value;
  if (found->captured) return Status::unknown;
  force(*found);
  return Status::success;
}

Status Timeline::synchronize_all() {
  if (!capturing_.empty()) return Status::not_supported;
  for (const Lane& lane : lanes_) force({lane.stream, lane.issued});
  return Status::success;
}

void Timeline::set_capturing(Stream stream, bool capturing) {
  if (capturing)
    capturing_.insert(stream);
  else
    capturing_.erase(stream);
}

void Timeline::begin_late(Stream stream) {
  if (about_to_capture_.erase(stream) > 0) capturing_.insert(stream);
}

void Timeline::hold(Stream stream) {
  Lane& lane = this->lane(stream);
  lane.held_after = std::min(lane.held_after, lane.issued);
}

void Timeline::finish(Stream stream) {
  lane(stream).held_after = std::numeric_limits<std::uint64_t>::max();
}

Timeline::Recorded* Timeline::find(Event event) {
  if (event == 0 || event > events_.size() || !events_[event - 1].exists) return nullptr;
  return &events_[event - 1];
}

Timeline::Lane& Timeline::lane(Stream stream) {
  for (Lane& lane : lanes_)
    if (lane.stream == stream) return lane;
  lanes_.emplace_back().stream = stream;
  return lanes_.back();
}

// Looks at no barrier beyond the point, so that streams that wait for each other in turn do not send it in circles.
bool Timeline::reached(Point point) {
  Lane& lane = this->lane(point.stream);
  const std::uint64_t target = std::min(point.position, lane.held_after);
  while (lane.reached < target) {
    if (lane.barriers.empty() || lane.barriers.front().position > target) {
      lane.reached = target;
    } else {
      lane.reached = std::max(lane.reached, lane.barriers.front().position - 1);
      if (!reached(lane.barriers.front().awaited)) return false;
      lane.barriers.pop_front();
    }
  }
  return lane.reached >= point.position;
}

void Timeline::force(Point point) {
  Lane& lane = this->lane(point.stream);
  while (!lane.barriers.empty() && lane.barriers.front().position <= point.position) {
    force(lane.barriers.front().awaited);
    lane.barriers.pop_front();
  }
  lane.reached = std::max(lane.reached, point.position);
}

}  // namespace gmlake
