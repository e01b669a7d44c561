// Events of the timeline. An event belongs to the device on which it was created: it is recorded only there, and any
// stream may wait for it.
#include "device/streams.h"

namespace gmlake::device::timeline {
namespace {

constexpr unsigned without_timing = 2;
constexpr unsigned interprocess = 4;
constexpr unsigned all_flags = 7;

}  // namespace

Status create_event(int device, unsigned flags, EventHandle& event) {
  if (flags > all_flags || (flags & (interprocess | without_timing)) == interprocess) return Status::invalid_value;
  auto made = std::make_unique<Event>();
  made->device = device;
  made->flags = flags;
  std::lock_guard guard(state().lock);
  event = made.get();
  state().events.emplace(event, std::move(made));
  return Status::success;
}

Status create_shared_event(int device, EventHandle& event) {
  return create_event(device, interprocess | without_timing, event);
}

Status destroy_event(EventHandle event) {
  std::lock_guard guard(state().lock);
  return state().events.erase(event) == 1 ? Status::success : Status::invalid_handle;
}

Status shareable(EventHandle handle) {
  std::lock_guard guard(state().lock);
  const Event* event = find_event(handle);
  return event != nullptr && (event->flags & interprocess) != 0 ? Status::success : Status::invalid_handle;
}

Status record(EventHandle handle, StreamHandle on) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(on);
  Event* event = find_event(handle);
  if (stream == nullptr || event == nullptr || event->device != stream->device) return Status::invalid_handle;
  if (const Status refused = meet_captures(*stream); refused != Status::success) return refused;
  event->recorded = true;
  event->capture = stream->capture;
  if (stream->capture) {
    event->captured = stream->captured;
    return stream->capture->invalidated ? Status::capture_invalidated : Status::success;
  }
  event->time = std::max(finished(*stream), tick());
  if (configuration().hazards) {
    event->ordering = stream->ordering;
    each_implied(*stream, [&](const Stream& other) { event->ordering.merge(other.ordering); });
  }
  return Status::success;
}

Status wait(StreamHandle handle, EventHandle on) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  Event* event = find_event(on);
  if (stream == nullptr || event == nullptr) return Status::invalid_handle;
  if (event->capture) {
    if (!event->capture->graph) return Status::captured_event;  // that capture has ended
    if (stream->capture && stream->capture != event->capture) {
      static_cast<void>(spoil(event->capture, Status::capture_merge));
      return spoil(stream->capture, Status::capture_merge);
    }
    if (stream->legacy()) return spoil(event->capture, Status::capture_implicit);
    if (!stream->capture) stream->captured.clear();
    stream->capture = event->capture;
    stream->captured.merge(event->captured);
    return Status::success;
  }
  if (stream->capture) return event->recorded ? spoil(stream->capture, Status::capture_isolation) : Status::success;
  if (const Status refused = meet_captures(*stream); refused != Status::success) return refused;
  stream->busy = std::max(stream->busy, event->time);
  if (configuration().hazards) stream->ordering.merge(event->ordering);
  return Status::success;
}

namespace {

Status at_launch(EventHandle event, StreamHandle on, Action action) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(on);
  if (stream == nullptr || find_event(event) == nullptr) return Status::invalid_handle;
  return stream->capture ? add_node(*stream, 0, std::move(action)) : Status::invalid_value;
}

// The host may not ask about an event that is part of a capture.
Status may_ask(const Event* event) {
  if (event == nullptr) return Status::invalid_handle;
  if (event->capture) return spoil(event->capture, Status::captured_event);
  return unsafe_call_locked();
}

}  // namespace

Status record_by_graph(EventHandle event, StreamHandle stream) {
  return at_launch(event, stream, [event] { static_cast<void>(record(event, launched_on())); });
}

Status wait_by_graph(StreamHandle stream, EventHandle event) {
  return at_launch(event, stream, [event] { static_cast<void>(wait(launched_on(), event)); });
}

Status query_event(EventHandle handle) {
  std::lock_guard guard(state().lock);
  const Event* event = find_event(handle);
  if (const Status refused = may_ask(event); refused != Status::success) return refused;
  if (event->time > tick()) return Status::not_ready;
  learn(event->ordering);
  return Status::success;
}

Status synchronize_event(EventHandle handle) {
  std::lock_guard guard(state().lock);
  const Event* event = find_event(handle);
  if (const Status refused = may_ask(event); refused != Status::success) return refused;
  wait_until(event->time);
  learn(event->ordering);
  return Status::success;
}

Status elapsed(EventHandle from, EventHandle to, float& milliseconds) {
  std::lock_guard guard(state().lock);
  const Event* begin = find_event(from);
  const Event* end = find_event(to);
  if (begin == nullptr || end == nullptr || !begin->recorded || !end->recorded) return Status::invalid_handle;
  if (begin->device != end->device || ((begin->flags | end->flags) & without_timing) != 0)
    return Status::invalid_handle;
  if (begin->capture || end->capture) return Status::captured_event;
  if (std::max(begin->time, end->time) > now()) return Status::not_ready;
  milliseconds = static_cast<float>((static_cast<double>(end->time) - static_cast<double>(begin->time)) * 1e-6);
  return Status::success;
}

}  // namespace gmlake::device::timeline
