// Streams, events and captures, with the driver's rules: what orders what, when work is finished on emulated time, what
// is forbidden while a stream captures. Work takes effect when it is enqueued, which is one of the orders a real device
// may choose; hazards.h finds the programs for which another order would have mattered.
#pragma once

#include <cstdint>
#include <functional>

#include "device/clock.h"
#include "device/graph.h"
#include "device/ordering.h"
#include "device/status.h"

namespace gmlake::device::timeline {

// The device of the calling thread: its default stream is what the null handle means.
void set_device(int device);
int current_device();
// Another device for as long as this lives.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(current_device()) { set_device(device); }
  ~OnDevice() { set_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const int before_;
};

// Handles as CUDA's: null and 1 are the legacy default stream, 2 is the thread's default stream (here the same one).
using StreamHandle = void*;
using EventHandle = void*;

inline constexpr int least_priority = 0;
inline constexpr int greatest_priority = -5;
Status create_stream(int device, unsigned flags, int priority, StreamHandle& stream);
Status destroy_stream(StreamHandle stream);
struct StreamProperties {
  int device, priority;
  unsigned flags;
  std::uint64_t id;
};
Status properties(StreamHandle stream, StreamProperties& properties);
// When the work so far is finished, on emulated time.
Nanoseconds finishes(StreamHandle stream);
Status query(StreamHandle stream);
Status synchronize(StreamHandle stream);
Status synchronize_device(int device);

// Flags as CUDA's. An event is recorded on streams of its device only; streams of any device may wait for it.
Status create_event(int device, unsigned flags, EventHandle& event);
Status create_shared_event(int device, EventHandle& event);  // one that came from another process
Status destroy_event(EventHandle event);
Status shareable(EventHandle event);  // invalid_handle: it was not created for other processes
Status record(EventHandle event, StreamHandle stream);
Status wait(StreamHandle stream, EventHandle event);
// In a capture only: the graph records the event, or waits for it, whenever it is launched.
Status record_by_graph(EventHandle event, StreamHandle stream);
Status wait_by_graph(StreamHandle stream, EventHandle event);
Status query_event(EventHandle event);
Status synchronize_event(EventHandle event);
Status elapsed(EventHandle from, EventHandle to, float& milliseconds);

// Runs the action now and lets the stream be busy for that long; in a capturing stream it becomes a node instead.
Status enqueue(StreamHandle stream, double microseconds, Action action);
// Then lets the host wait, as a call without "Async" does. Refused while the stream captures.
Status enqueue_and_wait(StreamHandle stream, double microseconds, Action action);

enum class CaptureStatus { none = 0, active = 1, invalidated = 2 };
Status begin_capture(StreamHandle stream, CaptureMode mode);
Status end_capture(StreamHandle stream, Graph*& graph);
Status capture_info(StreamHandle stream, CaptureStatus& status, std::uint64_t& id, Graph*& graph);
Status launch(const Graph& graph, StreamHandle stream);
// For calls that CUDA forbids during capture (allocation, queries, synchronisation of the device): refuses, and spoils
// the captures concerned, unless no capture forbids it or the thread has relaxed the rule.
Status unsafe_call();

// For the hazard detector: what the stream knows now, and that the device keeps its further work behind such a point.
Ordering known(StreamHandle stream);
void follow(StreamHandle stream, const Ordering& earlier);
// An access of work on this stream: of what was enqueued there last, or else of work that is only told of, which no
// event recorded so far covers.
void touch(StreamHandle stream, std::uintptr_t at, std::size_t size, bool write, bool enqueued = true);

}  // namespace gmlake::device::timeline
