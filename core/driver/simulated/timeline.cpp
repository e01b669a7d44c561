#include "driver/simulated/timeline.h"

#include <algorithm>

namespace gmlake {

Event Timeline::create() {
  events_.emplace(next_, Point{});
  return next_++;
}

Status Timeline::destroy(Event event) {
  return events_.erase(event) == 1 ? Status::success : Status::invalid_value;
}

Status Timeline::record(Event event, Stream stream) {
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::invalid_value;
  found->second = {stream, ++lanes_[stream].issued};
  return Status::success;
}

Status Timeline::query(Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::invalid_value;
  return reached(found->second) ? Status::success : Status::not_ready;
}

Status Timeline::wait(Stream stream, Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::invalid_value;
  const Point awaited = found->second;
  if (awaited.stream == stream || reached(awaited)) return Status::success;
  Lane& lane = lanes_[stream];
  lane.barriers.push_back({++lane.issued, awaited});
  return Status::success;
}

Status Timeline::synchronize(Event event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::invalid_value;
  force(found->second);
  return Status::success;
}

void Timeline::set_capturing(Stream stream, bool capturing) {
  if (capturing)
    capturing_.insert(stream);
  else
    capturing_.erase(stream);
}

void Timeline::hold(Stream stream) {
  Lane& lane = lanes_[stream];
  lane.held_after = std::min(lane.held_after, lane.issued);
}

void Timeline::finish(Stream stream) {
  lanes_[stream].held_after = std::numeric_limits<std::uint64_t>::max();
}

// Looks at no barrier beyond the point, so that streams that wait for each other in turn do not send it in circles.
bool Timeline::reached(Point point) {
  Lane& lane = lanes_[point.stream];
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
  Lane& lane = lanes_[point.stream];
  while (!lane.barriers.empty() && lane.barriers.front().position <= point.position) {
    force(lane.barriers.front().awaited);
    lane.barriers.pop_front();
  }
  lane.reached = std::max(lane.reached, point.position);
}

}  // namespace gmlake
