// Captures of the timeline: how they begin and end, what they forbid, and graphs that run what was captured.
#include <utility>

#include "device/streams.h"

namespace gmlake::device::timeline {
namespace {

thread_local StreamHandle stream_of_launch = nullptr;

bool forbids(const Capture& capture) {
  if (capture.mode == CaptureMode::relaxed || capture_mode() == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == CaptureMode::global && capture_mode() == CaptureMode::global;
}

template <class Each>
void each_implied_capture(const Stream& stream, Each each) {
  if (!stream.legacy()) return;
  each_implied(stream, [&](const Stream& other) {
    if (other.capture) each(other.capture);
  });
}

}  // namespace

Status spoil(const std::shared_ptr<Capture>& capture, Status status) {
  capture->invalidated = true;
  return status;
}

Status meet_captures(const Stream& stream) {
  Status status = Status::success;
  each_implied_capture(stream, [&](const auto& capture) { status = spoil(capture, Status::capture_implicit); });
  return status;
}

Status unsafe_call_locked() {
  Status status = Status::success;
  for (const auto& capture : state().captures)
    if (forbids(*capture)) status = spoil(capture, Status::capture_unsupported);
  return status;
}

Status unsafe_call() {
  std::lock_guard guard(state().lock);
  return unsafe_call_locked();
}

Status begin_capture(StreamHandle handle, CaptureMode mode) {
  std::lock_guard guard(state().lock);
  Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (mode < CaptureMode::global || mode > CaptureMode::relaxed) return Status::invalid_value;
  if (stream->legacy()) return Status::capture_unsupported;
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
  if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id())
    return Status::capture_wrong_thread;
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

// Asking about the legacy stream while it cannot be used is refused, but spoils nothing.
Status capture_info(StreamHandle handle, CaptureStatus& status, std::uint64_t& id, Graph*& graph) {
  std::lock_guard guard(state().lock);
  const Stream* stream = find(handle);
  if (stream == nullptr) return Status::invalid_handle;
  status = CaptureStatus::none;
  bool implied = false;
  each_implied_capture(*stream, [&](const auto&) { implied = true; });
  if (implied) return Status::capture_implicit;
  if (!stream->capture) return Status::success;
  status = stream->capture->invalidated ? CaptureStatus::invalidated : CaptureStatus::active;
  id = stream->capture->id;
  graph = stream->capture->graph.get();
  return Status::success;
}

Status add_node(Stream& stream, double microseconds, Action action) {
  if (stream.capture->invalidated) return Status::capture_invalidated;
  stream.capture->graph->nodes.push_back({microseconds, std::move(action)});
  stream.captured.advance(stream.id);
  return Status::success;
}

StreamHandle launched_on() {
  return stream_of_launch;
}

Status launch(const Graph& graph, StreamHandle stream) {
  double microseconds = 0;
  for (const Node& node : graph.nodes) microseconds += node.microseconds;
  const StreamHandle before = std::exchange(stream_of_launch, stream);
  const Status status = enqueue(stream, microseconds, [nodes = graph.nodes] {
    for (const Node& node : nodes)
      if (node.action) node.action();
  });
  stream_of_launch = before;
  return status;
}

}  // namespace gmlake::device::timeline
