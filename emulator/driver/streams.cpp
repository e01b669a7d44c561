// Driver entry points about streams, events, capture, launches and modules.
#include <algorithm>

#include "driver/abi.h"

using namespace gmlake::device;
using namespace gmlake::driver;

namespace {

// What a module or function handle points to: kernels do nothing, so one token serves all.
int token;
constexpr unsigned external = 1;  // of an event that a graph records, or waits for, when it is launched

Result launch(Dimensions grid, Dimensions block, Stream stream) {
  return code(launchable(grid, block) ? kernel(stream) : Status::invalid_value);
}

}  // namespace

GMLAKE_EXPORT Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return code(timeline::create_stream(current_device(), flags, priority, *stream));
}
GMLAKE_EXPORT Result cuStreamCreate(Stream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
GMLAKE_EXPORT Result cuStreamDestroy_v2(Stream stream) {
  return code(timeline::destroy_stream(stream));
}
GMLAKE_EXPORT Result cuStreamQuery(Stream stream) {
  return code(timeline::query(stream));
}
GMLAKE_EXPORT Result cuStreamSynchronize(Stream stream) {
  return code(timeline::synchronize(stream));
}
GMLAKE_EXPORT Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  if (flags > external) return code(Status::invalid_value);
  return code(flags == external ? timeline::wait_by_graph(stream, event) : timeline::wait(stream, event));
}

GMLAKE_EXPORT Result cuStreamGetPriority(Stream stream, int* priority) {
  return code(stream_property(stream, &timeline::StreamProperties::priority, priority));
}

GMLAKE_EXPORT Result cuStreamGetFlags(Stream stream, unsigned* flags) {
  return code(stream_property(stream, &timeline::StreamProperties::flags, flags));
}

GMLAKE_EXPORT Result cuStreamGetId(Stream stream, unsigned long long* id) {
  return code(stream_property(stream, &timeline::StreamProperties::id, id));
}

GMLAKE_EXPORT Result cuStreamGetCtx(Stream stream, Context* context) {
  timeline::StreamProperties properties{};
  const Status status = timeline::properties(stream, properties);
  *context = context_of(properties.device);
  return code(status);
}

GMLAKE_EXPORT Result cuEventCreate(Event* event, unsigned flags) {
  return code(timeline::create_event(current_device(), flags, *event));
}
GMLAKE_EXPORT Result cuEventDestroy_v2(Event event) {
  return code(timeline::destroy_event(event));
}
GMLAKE_EXPORT Result cuEventRecord(Event event, Stream stream) {
  return code(timeline::record(event, stream));
}
GMLAKE_EXPORT Result cuEventRecordWithFlags(Event event, Stream stream, unsigned flags) {
  if (flags > external) return code(Status::invalid_value);
  return code(flags == external ? timeline::record_by_graph(event, stream) : timeline::record(event, stream));
}
GMLAKE_EXPORT Result cuEventQuery(Event event) {
  return code(timeline::query_event(event));
}
GMLAKE_EXPORT Result cuEventSynchronize(Event event) {
  return code(timeline::synchronize_event(event));
}
GMLAKE_EXPORT Result cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  return code(timeline::elapsed(from, to, *milliseconds));
}
GMLAKE_EXPORT Result cuEventElapsedTime_v2(float* milliseconds, Event from, Event to) {
  return cuEventElapsedTime(milliseconds, from, to);
}

GMLAKE_EXPORT Result cuStreamIsCapturing(Stream stream, int* answer) {
  timeline::CaptureStatus status{};
  std::uint64_t id = 0;
  gmlake::device::Graph* graph = nullptr;
  const Status result = timeline::capture_info(stream, status, id, graph);
  *answer = static_cast<int>(status);
  return code(result);
}

GMLAKE_EXPORT Result cuStreamBeginCapture_v2(Stream stream, int mode) {
  return code(timeline::begin_capture(stream, static_cast<CaptureMode>(mode)));
}

GMLAKE_EXPORT Result cuStreamEndCapture(Stream stream, gmlake::driver::Graph* graph) {
  gmlake::device::Graph* captured = nullptr;
  const Status status = timeline::end_capture(stream, captured);
  *graph = captured;
  return code(status);
}

GMLAKE_EXPORT Result cuThreadExchangeStreamCaptureMode(int* mode) {
  if (*mode < 0 || *mode > 2) return code(Status::invalid_value);
  *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return 0;
}

GMLAKE_EXPORT Result cuLaunchKernel(void*, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                    unsigned block_y, unsigned block_z, unsigned, Stream stream, void**, void**) {
  return launch({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream);
}
GMLAKE_EXPORT Result cuLaunchCooperativeKernel(void*, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                               Stream stream, void**) {
  return launch({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream);
}
struct LaunchConfiguration {
  Dimensions grid, block;
  unsigned shared;
  Stream stream;
};
GMLAKE_EXPORT Result cuLaunchKernelEx(const LaunchConfiguration* how, void*, void**, void**) {
  return launch(how->grid, how->block, how->stream);
}
GMLAKE_EXPORT Result cuLaunchHostFunc(Stream stream, void (*function)(void*), void* argument) {
  return code(enqueue(stream, 0, [=] { function(argument); }));
}

GMLAKE_EXPORT Result cuModuleLoadData(void** module, const void*) {
  *module = &token;
  return 0;
}
GMLAKE_EXPORT Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
GMLAKE_EXPORT Result cuModuleLoad(void** module, const char*) {
  return cuModuleLoadData(module, nullptr);
}
GMLAKE_EXPORT Result cuModuleUnload(void*) {
  return 0;
}
GMLAKE_EXPORT Result cuModuleGetFunction(void** function, void*, const char*) {
  *function = &token;
  return 0;
}
GMLAKE_EXPORT Result cuFuncSetAttribute(void*, int, int) {
  return 0;
}
GMLAKE_EXPORT Result cuFuncSetCacheConfig(void*, int) {
  return 0;
}
GMLAKE_EXPORT Result cuFuncGetAttribute(int* value, int number, void*) {
  *value = number == 0 ? 1024 : number == 4 ? 32 : 0;  // threads per block, registers; nothing is kept in local memory
  return 0;
}
GMLAKE_EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, std::size_t) {
  if (threads <= 0) return code(Status::invalid_value);
  *blocks = std::clamp(attribute(39, 0) / threads, 1, attribute(106, 0));
  return 0;
}

GMLAKE_EXPORT Result cuOccupancyMaxActiveClusters(int* clusters, void*, const void*) {
  *clusters = configuration().multiprocessors / 2;
  return 0;
}

// A tensor map tells a kernel how to fetch; kernels do nothing, so an empty one will do.
struct TensorMap {
  std::uint64_t words[16];
};
GMLAKE_EXPORT Result cuTensorMapEncodeTiled(TensorMap* map, ...) {
  *map = {};
  return 0;
}
GMLAKE_EXPORT Result cuTensorMapEncodeIm2col(TensorMap* map, ...) {
  *map = {};
  return 0;
}

// Nobody writes to the driver's log here, so that a reader of it has nothing to be told.
GMLAKE_EXPORT Result cuLogsRegisterCallback(void*, void*, void** handle) {
  *handle = &token;
  return 0;
}
GMLAKE_EXPORT Result cuLogsUnregisterCallback(void*) {
  return 0;
}
