// Runtime entry points about streams, events, capture and graphs.
#include <memory>

#include "runtime/abi.h"

using namespace gmlake::device;
using namespace gmlake::runtime;

namespace {

using GraphHandle = Graph*;
constexpr unsigned external = 1;  // of an event that a graph records, or waits for, when it is launched

struct CaptureInfo {
  timeline::CaptureStatus status{};
  std::uint64_t id = 0;
  Graph* graph = nullptr;
};

Status capture_info(Stream stream, CaptureInfo& info) {
  return timeline::capture_info(stream, info.status, info.id, info.graph);
}

}  // namespace

GMLAKE_EXPORT Error cudaStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return result(timeline::create_stream(current_device(), flags, priority, *stream));
}
GMLAKE_EXPORT Error cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
GMLAKE_EXPORT Error cudaStreamCreate(Stream* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
GMLAKE_EXPORT Error cudaStreamDestroy(Stream stream) {
  return result(timeline::destroy_stream(stream));
}
GMLAKE_EXPORT Error cudaStreamQuery(Stream stream) {
  return result(timeline::query(stream));
}
GMLAKE_EXPORT Error cudaStreamSynchronize(Stream stream) {
  return result(timeline::synchronize(stream));
}
GMLAKE_EXPORT Error cudaStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  if (flags > external) return result(Status::invalid_value);
  return result(flags == external ? timeline::wait_by_graph(stream, event) : timeline::wait(stream, event));
}
GMLAKE_EXPORT Error cudaStreamGetPriority(Stream stream, int* priority) {
  return result(stream_property(stream, &timeline::StreamProperties::priority, priority));
}
GMLAKE_EXPORT Error cudaStreamGetFlags(Stream stream, unsigned* flags) {
  return result(stream_property(stream, &timeline::StreamProperties::flags, flags));
}
GMLAKE_EXPORT Error cudaStreamGetId(Stream stream, unsigned long long* id) {
  return result(stream_property(stream, &timeline::StreamProperties::id, id));
}

GMLAKE_EXPORT Error cudaEventCreateWithFlags(Event* event, unsigned flags) {
  return result(timeline::create_event(current_device(), flags, *event));
}
GMLAKE_EXPORT Error cudaEventCreate(Event* event) {
  return cudaEventCreateWithFlags(event, 0);
}
GMLAKE_EXPORT Error cudaEventDestroy(Event event) {
  return result(timeline::destroy_event(event));
}
GMLAKE_EXPORT Error cudaEventRecord(Event event, Stream stream) {
  return result(timeline::record(event, stream));
}
GMLAKE_EXPORT Error cudaEventRecordWithFlags(Event event, Stream stream, unsigned flags) {
  if (flags > external) return result(Status::invalid_value);
  return result(flags == external ? timeline::record_by_graph(event, stream) : timeline::record(event, stream));
}
GMLAKE_EXPORT Error cudaEventQuery(Event event) {
  return result(timeline::query_event(event));
}
GMLAKE_EXPORT Error cudaEventSynchronize(Event event) {
  return result(timeline::synchronize_event(event));
}
GMLAKE_EXPORT Error cudaEventElapsedTime(float* milliseconds, Event from, Event to) {
  return result(timeline::elapsed(from, to, *milliseconds));
}

GMLAKE_EXPORT Error cudaStreamBeginCapture(Stream stream, int mode) {
  return result(timeline::begin_capture(stream, static_cast<CaptureMode>(mode)));
}
GMLAKE_EXPORT Error cudaStreamEndCapture(Stream stream, GraphHandle* graph) {
  return result(timeline::end_capture(stream, *graph));
}
GMLAKE_EXPORT Error cudaThreadExchangeStreamCaptureMode(int* mode) {
  if (*mode < 0 || *mode > 2) return result(Status::invalid_value);
  *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return 0;
}
GMLAKE_EXPORT Error cudaStreamIsCapturing(Stream stream, int* answer) {
  CaptureInfo info;
  const Status status = capture_info(stream, info);
  *answer = static_cast<int>(info.status);
  return result(status);
}

// Dependencies are not kept (graph.h): there are none to show.
GMLAKE_EXPORT Error cudaStreamGetCaptureInfo(Stream stream, int* answer, unsigned long long* id, GraphHandle* graph,
                                             const void*** dependencies, const void** edges, std::size_t* count) {
  CaptureInfo info;
  const Status status = capture_info(stream, info);
  *answer = static_cast<int>(info.status);
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = info.graph;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return result(status);
}

// The same for programs built against CUDA 12, where edges have no data.
GMLAKE_EXPORT Error cudaStreamGetCaptureInfo_v2(Stream stream, int* answer, unsigned long long* id, GraphHandle* graph,
                                                const void*** dependencies, std::size_t* count) {
  return cudaStreamGetCaptureInfo(stream, answer, id, graph, dependencies, nullptr, count);
}

GMLAKE_EXPORT Error cudaGraphGetNodes(GraphHandle graph, const void** nodes, std::size_t* count) {
  if (nodes == nullptr) {
    *count = graph->nodes.size();
    return 0;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
  return 0;
}
GMLAKE_EXPORT Error cudaGraphDestroy(GraphHandle graph) {
  delete graph;
  return 0;
}
GMLAKE_EXPORT Error cudaGraphInstantiateWithFlags(GraphHandle* executable, GraphHandle graph, unsigned long long) {
  if (graph == nullptr) return result(Status::invalid_value);
  *executable = new Graph(*graph);
  return 0;
}
GMLAKE_EXPORT Error cudaGraphInstantiate(GraphHandle* executable, GraphHandle graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
GMLAKE_EXPORT Error cudaGraphLaunch(GraphHandle executable, Stream stream) {
  if (executable == nullptr) return result(Status::invalid_value);
  return result(timeline::launch(*executable, stream));
}
GMLAKE_EXPORT Error cudaGraphExecDestroy(GraphHandle executable) {
  delete executable;
  return 0;
}

GMLAKE_EXPORT Error cudaUserObjectCreate(UserObject** made, void* object, void (*destroy)(void*), unsigned references,
                                         unsigned) {
  *made = new UserObject{object, destroy, references};
  return 0;
}
GMLAKE_EXPORT Error cudaUserObjectRelease(UserObject* object, unsigned count) {
  release(object, count);
  return 0;
}
GMLAKE_EXPORT Error cudaGraphRetainUserObject(GraphHandle graph, UserObject* object, unsigned count, unsigned flags) {
  constexpr unsigned moved = 1;  // the caller's references become the graph's
  if (flags != moved) object->references += count;
  for (unsigned i = 0; i < count; ++i) graph->retained.push_back(object);
  return 0;
}
