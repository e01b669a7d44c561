// See timeline.h. One lock for all streams, events and captures; actions run outside of it.
#include "device/timeline.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/clock.h"
#include "device/configuration.h"
#include "device/hazards.h"

namespace gmlake::device::timeline {
namespace {

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  StreamId id = 0;
  Nanoseconds busy = 0;
  std::shared_ptr<Capture> capture;
  Ordering captured;  // positions within the capture
  Ordering ordering;

  bool blocking() const { return (flags & 1) == 0; }
};

struct Event {
  Nanoseconds time = 0;
  bool recorded = false;
  std::shared_ptr<Capture> capture;  // of the stream that it was last recorded in
  Ordering captured;
  Ordering ordering;
};

struct State {
  std::mutex lock;
  std::unordered_map<void*, std::unique_ptr<Stream>> streams;
  std::unordered_map<void*, std::unique_ptr<Event>> events;
  Stream defaults[most_devices];
  std::vector<std::shared_ptr<Capture>> captures;
  Ordering host;  // what the program knows to be finished
  StreamId next_stream = most_devices;
  std::uint64_t next_capture = 1;

  State() {
    for (int device = 0; device < most_devices; ++device) {
      defaults[device].device = device;
      defaults[device].id = static_cast<StreamId>(device);
    }
  }
};

State& state() {
  static State& alive = *new State;
  return alive;
}

thread_local int device_of_thread = 0;

bool is_default(StreamHandle stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

Stream* find(StreamHandle stream) {
  if (is_default(stream)) return &state().defaults[device_of_thread];
  const auto found = state().streams.find(stream);
  return found == state().streams.end() ? nullptr : found->second.get();
}

Event* find_event(EventHandle event) {
  const auto found = state().events.find(event);
  return found == state().events.end() ? nullptr : found->second.get();
}

template <class Each>
void each_stream(Each each) {
  for (Stream& stream : state().defaults) each(stream);
  for (auto& [handle, stream] : state().streams) each(*stream);
}

// The legacy default stream and the blocking streams of its device wait for each other.
template <class Each>
void each_implied(const Stream& stream, Each each) {
  const bool legacy = stream.id < most_devices;
  if (!legacy && !stream.blocking()) return;
  if (!legacy) return each(state().defaults[stream.device]);
  for (auto& [handle, other] : state().streams)
    if (other->device == stream.device && other->blocking()) each(*other);
}

Status spoil(const std::shared_ptr<Capture>& capture, Status status) {
  capture->invalidated = true;
  return status;
}

// When the stream's work so far is finished.
Nanoseconds finished(const Stream& stream) {
  Nanoseconds latest = stream.busy;
  each_implied(stream, [&](const Stream& other) { latest = std::max(latest, other.busy); });
  return latest;
}

void learn(const Ordering& ordering) {
  if (configuration().hazards) state().host.merge(ordering);
}

Status occupy(Stream& stream, double microseconds) {
  const Nanoseconds start = std::max(finished(stream), now());
  bool legacy_meets_capture = false;
  each_implied(stream, [&](const Stream& other) { legacy_meets_capture |= other.capture != nullptr; });
  if (legacy_meets_capture) return Status::capture_implicit;
  if (microseconds > 0) stream.busy = start + static_cast<Nanoseconds>(microseconds * 1e3);
  if (configuration().hazards) {
    each_implied(stream, [&](const Stream& other) { stream.ordering.merge(other.ordering); });
    stream.ordering.merge(state().host);
    stream.ordering.advance(stream.id);
  }
  return Status::success;
}

bool forbids(const Capture& capture) {
  if (capture.mode == CaptureMode::relaxed || capture_mode() == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == CaptureMode::global && capture_mode() == CaptureMode::global;
}

Status unsafe_call_locked() {
  Status status = Status::success;
  for (const auto& capture : state().captures)
    if (forbids(*capture)) status = spoil(capture, Status::capture_unsupported);
  return status;
}

}  // namespace

void set_device(int device) {
  device_of_thread = device;
}
int current_device() {
  return device_of_thread;
}

Status create_stream(int device, unsigned flags, int priority, StreamHandle& stream) {
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->flags = flags;
  made->priority = priority;
  std::lock_guard guard(state().lock);
  made->id = state().next_stream++;
  stream = made.get();
  state().streams.emplace(stream, std::move(made));
  return Status::success;
}

Status destroy_stream(StreamHandle stream) {
  std::lock_guard guard(state().lock);
  if (is_default(stream) || find(stream) == nullptr) return Status::invalid_handle;
  state().streams.erase(stream);
  return Status::success;
}

Status properties(StreamHandle handle, StreamProperties& result) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  result = {stream->device, stream->priority, stream->flags, stream->id};
  return Status::success;
}

Nanoseconds finishes(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  return stream == nullptr ? now() : finished(*stream);
}

Status query(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (stream->capture) return spoil(stream->capture, Status::capture_unsupported);
  if (const Status refused = unsafe_call_locked(); refused != Status::success) return refused;
  if (finished(*stream) > tick()) return Status::not_ready;
  learn(stream->ordering);
  return Status::success;
}

Status synchronize(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (stream->capture) return spoil(stream->capture, Status::capture_unsupported);
  if (const Status refused = unsafe_call_locked(); refused != Status::success) return refused;
  wait_until(finished(*stream));
  learn(stream->ordering);
  each_implied(*stream, [](const Stream& other) { learn(other.ordering); });
  return Status::success;
}

Status synchronize_device(int device) {
  std::lock_guard guard(state().lock);
  if (const Status refused = unsafe_call_locked(); refused != Status::success) return refused;
  each_stream([&](const Stream& stream) {
    if (stream.device != device) return;
    wait_until(stream.busy);
    learn(stream.ordering);
  });
  return Status::success;
}

Status create_event(EventHandle& event) {
  auto made = std::make_unique<Event>();
  std::lock_guard guard(state().lock);
  event = made.get();
  state().events.emplace(event, std::move(made));
  return Status::success;
}

Status destroy_event(EventHandle event) {
  std::lock_guard guard(state().lock);
  return state().events.erase(event) == 1 ? Status::success : Status::invalid_handle;
}

Status record(EventHandle handle, StreamHandle on) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(on);
  Event* event = find_event(handle);
  if (stream == nullptr || event == nullptr) return Status::invalid_handle;
  event->recorded = true;
  event->capture = stream->capture;
  if (stream->capture) {
    event->captured = stream->captured;
    return stream->capture->invalidated ? Status::capture_invalidated : Status::success;
  }
  event->time = std::max(finished(*stream), tick());
  if (configuration().hazards) event->ordering = stream->ordering;
  return Status::success;
}

Status wait(StreamHandle handle, EventHandle on) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  Event* event = find_event(on);
  if (stream == nullptr || event == nullptr) return Status::invalid_handle;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return spoil(stream->capture, Status::capture_isolation);
    if (is_default(handle)) return spoil(event->capture, Status::capture_implicit);
    if (!event->capture->graph) return Status::captured_event;  // that capture has ended
    if (!stream->capture) stream->captured.clear();
    stream->capture = event->capture;
    stream->captured.merge(event->captured);
    return Status::success;
  }
  if (stream->capture) return event->recorded ? spoil(stream->capture, Status::capture_isolation) : Status::success;
  stream->busy = std::max(stream->busy, event->time);
  if (configuration().hazards) stream->ordering.merge(event->ordering);
  return Status::success;
}

Status query_event(EventHandle handle) {
  std::lock_guard guard(state().lock);
  Event* event = find_event(handle);
  if (event == nullptr) return Status::invalid_handle;
  if (event->capture) return Status::captured_event;
  if (const Status refused = unsafe_call_locked(); refused != Status::success) return refused;
  if (event->time > tick()) return Status::not_ready;
  learn(event->ordering);
  return Status::success;
}

Status synchronize_event(EventHandle handle) {
  std::lock_guard guard(state().lock);
  Event* event = find_event(handle);
  if (event == nullptr) return Status::invalid_handle;
  if (event->capture) return Status::captured_event;
  if (const Status refused = unsafe_call_locked(); refused != Status::success) return refused;
  wait_until(event->time);
  learn(event->ordering);
  return Status::success;
}

Status elapsed(EventHandle from, EventHandle to, float& milliseconds) {
  std::lock_guard guard(state().lock);
  const Event* begin = find_event(from);
  const Event* end = find_event(to);
  if (begin == nullptr || end == nullptr || !begin->recorded || !end->recorded) return Status::invalid_handle;
  if (std::max(begin->time, end->time) > now()) return Status::not_ready;
  milliseconds = static_cast<float>((static_cast<double>(end->time) - static_cast<double>(begin->time)) * 1e-6);
  return Status::success;
}

Status enqueue(StreamHandle handle, double microseconds, Action action) {
  {
    std::lock_guard guard(state().lock);
    Stream* stream = find(handle);
    if (stream == nullptr) return Status::invalid_handle;
    tick();
    if (stream->capture) {
      if (stream->capture->invalidated) return Status::capture_invalidated;
      stream->capture->graph->nodes.push_back({microseconds, std::move(action)});
      stream->captured.advance(stream->id);
      return Status::success;
    }
    if (const Status refused = occupy(*stream, microseconds); refused != Status::success) return refused;
  }
  if (action) action();
  return Status::success;
}

Status enqueue_and_wait(StreamHandle stream, double microseconds, Action action) {
  if (const Status refused = unsafe_call(); refused != Status::success) return refused;
  if (const Status status = enqueue(stream, microseconds, std::move(action)); status != Status::success) return status;
  return synchronize(stream);
}

Status begin_capture(StreamHandle handle, CaptureMode mode) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (is_default(handle)) return Status::capture_unsupported;
  if (stream->capture) return Status::illegal_state;
  auto capture = std::make_shared<Capture>();
  capture->id = state().next_capture++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream->id;
  stream->capture = capture;
  stream->captured.clear();
  state().captures.push_back(std::move(capture));
  return Status::success;
}

Status end_capture(StreamHandle handle, Graph*& graph) {
  std::lock_guard guard(state().lock);
  graph = nullptr;
  Stream* origin = find(handle);
  if (origin == nullptr) return Status::invalid_handle;
  const std::shared_ptr<Capture> capture = origin->capture;
  if (!capture) return Status::illegal_state;
  if (capture->origin != origin->id) return spoil(capture, Status::capture_unmatched);
  Status status = capture->invalidated ? Status::capture_invalidated : Status::success;
  each_stream([&](Stream& stream) {
    if (stream.capture != capture) return;
    const bool joined = origin->captured.knows(stream.id, stream.captured.epoch(stream.id));
    if (!joined && status == Status::success) status = Status::capture_unjoined;
    stream.capture.reset();
  });
  std::erase(state().captures, capture);
  std::unique_ptr<Graph> captured = std::move(capture->graph);
  if (status == Status::success) graph = captured.release();
  return status;
}

Status capture_info(StreamHandle handle, CaptureStatus& status, std::uint64_t& id, Graph*& graph) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  status = CaptureStatus::none;
  if (!stream->capture) return Status::success;
  status = stream->capture->invalidated ? CaptureStatus::invalidated : CaptureStatus::active;
  id = stream->capture->id;
  graph = stream->capture->graph.get();
  return Status::success;
}

Status launch(const Graph& graph, StreamHandle stream) {
  double microseconds = 0;
  for (const Node& node : graph.nodes) microseconds += node.microseconds;
  return enqueue(stream, microseconds, [nodes = graph.nodes] {
    for (const Node& node : nodes)
      if (node.action) node.action();
  });
}

Status unsafe_call() {
  std::lock_guard guard(state().lock);
  return unsafe_call_locked();
}

void touch(StreamHandle handle, std::uintptr_t at, std::size_t size, bool write) {
  if (!configuration().hazards) return;
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->capture) return;
  stream->ordering.merge(state().host);
  stream->ordering.advance(stream->id);  // work of its own: an event recorded before does not cover it
  hazards::access(stream->id, stream->ordering, at, size, write);
}

std::size_t live_streams() {
  std::lock_guard guard(state().lock);
  return state().streams.size();
}

std::size_t live_events() {
  std::lock_guard guard(state().lock);
  return state().events.size();
}

}  // namespace gmlake::device::timeline
