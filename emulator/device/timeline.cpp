// See timeline.h. One lock for all streams, events and captures; actions run outside of it.
#include "device/timeline.h"

#include "device/hazards.h"
#include "device/streams.h"

namespace gmlake::device::timeline {
namespace {

thread_local int device_of_thread = 0;

Status occupy(Stream& stream, double microseconds) {
  if (const Status refused = meet_captures(stream); refused != Status::success) return refused;
  const Nanoseconds start = std::max(finished(stream), now());
  if (microseconds > 0) stream.busy = start + static_cast<Nanoseconds>(microseconds * 1e3);
  if (configuration().hazards) {
    each_implied(stream, [&](const Stream& other) { stream.ordering.merge(other.ordering); });
    stream.ordering.merge(state().host);
    stream.ordering.advance(stream.id);
  }
  return Status::success;
}

// The host may not ask about a stream that captures, nor about the legacy stream while that cannot be used.
Status may_ask(const Stream& stream) {
  if (stream.capture) return spoil(stream.capture, Status::capture_unsupported);
  if (const Status refused = meet_captures(stream); refused != Status::success) return refused;
  return unsafe_call_locked();
}

void learn_all(const Stream& stream) {
  learn(stream.ordering);
  each_implied(stream, [](const Stream& other) { learn(other.ordering); });
}

}  // namespace

State::State() {
  for (int device = 0; device < most_devices; ++device) {
    defaults[device].device = departed[device].device = device;
    defaults[device].id = static_cast<StreamId>(device);
  }
}

State& state() {
  static State& alive = *new State;
  return alive;
}

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

Nanoseconds finished(const Stream& stream) {
  Nanoseconds latest = stream.busy;
  each_implied(stream, [&](const Stream& other) { latest = std::max(latest, other.busy); });
  return latest;
}

void learn(const Ordering& ordering) {
  if (configuration().hazards) state().host.merge(ordering);
}

void set_device(int device) {
  device_of_thread = device;
}
int current_device() {
  return device_of_thread;
}

Status create_stream(int device, unsigned flags, int priority, StreamHandle& stream) {
  if (flags > 1) return Status::invalid_value;
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->flags = flags;
  made->priority = std::clamp(priority, greatest_priority, least_priority);
  std::lock_guard guard(state().lock);
  made->id = state().next_stream++;
  stream = made.get();
  state().streams.emplace(stream, std::move(made));
  return Status::success;
}

// Its work goes on, and whoever waits for the device, or for a blocking stream, waits for that too.
Status destroy_stream(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  if (is_default(handle) || stream == nullptr) return Status::invalid_handle;
  Stream& heir = stream->blocking() ? state().defaults[stream->device] : state().departed[stream->device];
  heir.busy = std::max(heir.busy, stream->busy);
  heir.ordering.merge(stream->ordering);
  state().streams.erase(handle);
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
  if (const Status refused = may_ask(*stream); refused != Status::success) return refused;
  if (finished(*stream) > tick()) return Status::not_ready;
  learn_all(*stream);
  return Status::success;
}

Status synchronize(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (const Status refused = may_ask(*stream); refused != Status::success) return refused;
  wait_until(finished(*stream));
  learn_all(*stream);
  return Status::success;
}

Status synchronize_device(int device) {
  std::lock_guard guard(state().lock);
  Status refused = unsafe_call_locked();
  each_stream([&](const Stream& stream) {
    if (stream.device == device && stream.capture) refused = spoil(stream.capture, Status::capture_unsupported);
  });
  if (refused != Status::success) return refused;
  const auto await = [](const Stream& stream) {
    wait_until(stream.busy);
    learn(stream.ordering);
  };
  each_stream([&](const Stream& stream) {
    if (stream.device == device) await(stream);
  });
  await(state().departed[device]);
  return Status::success;
}

Status enqueue(StreamHandle handle, double microseconds, Action action) {
  {
    std::lock_guard guard(state().lock);
    Stream* stream = find(handle);
    if (stream == nullptr) return Status::invalid_handle;
    tick();
    if (stream->capture) return add_node(*stream, microseconds, std::move(action));
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

Ordering known(StreamHandle handle) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  return stream == nullptr ? Ordering{} : stream->ordering;
}

void follow(StreamHandle handle, const Ordering& earlier) {
  std::lock_guard guard(state().lock);
  if (Stream* stream = find(handle); stream != nullptr) stream->ordering.merge(earlier);
}

void touch(StreamHandle handle, std::uintptr_t at, std::size_t size, bool write, bool enqueued) {
  if (!configuration().hazards) return;
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->capture) return;
  stream->ordering.merge(state().host);
  if (!enqueued) stream->ordering.advance(stream->id);
  hazards::access(stream->id, stream->ordering, at, size, write);
}

}  // namespace gmlake::device::timeline
