// What the timeline keeps: streams, events and captures, behind one lock that the caller holds. For timeline.cpp,
// events.cpp and capture.cpp alone.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/clock.h"
#include "device/configuration.h"
#include "device/graph.h"
#include "device/ordering.h"
#include "device/timeline.h"

namespace gmlake::device::timeline {

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  StreamId id = 0;
  Nanoseconds busy = 0;
  std::shared_ptr<Capture> capture;
  Ordering captured;  // positions within the capture
  Ordering ordering;

  bool legacy() const { return id < most_devices; }
  bool blocking() const { return (flags & 1) == 0; }
};

struct Event {
  int device = 0;
  unsigned flags = 0;
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
  Stream departed[most_devices];  // what streams that were destroyed still have to do
  std::vector<std::shared_ptr<Capture>> captures;
  Ordering host;  // what the program knows to be finished
  StreamId next_stream = most_devices;
  std::uint64_t next_capture = 1;

  State();
};
State& state();

bool is_default(StreamHandle stream);
// Null when there is none, or not any more.
Stream* find(StreamHandle stream);
Event* find_event(EventHandle event);

template <class Each>
void each_stream(Each each) {
  for (Stream& stream : state().defaults) each(stream);
  for (auto& [handle, stream] : state().streams) each(*stream);
}

// The legacy default stream and the blocking streams of its device wait for each other.
template <class Each>
void each_implied(const Stream& stream, Each each) {
  if (!stream.legacy() && !stream.blocking()) return;
  if (!stream.legacy()) return each(state().defaults[stream.device]);
  for (auto& [handle, other] : state().streams)
    if (other->device == stream.device && other->blocking()) each(*other);
}

// When the stream's work so far is finished.
Nanoseconds finished(const Stream& stream);
// The program knows from now on that this is finished.
void learn(const Ordering& ordering);

Status spoil(const std::shared_ptr<Capture>& capture, Status status);
// A legacy stream that would have to wait for a capturing one cannot be used: refuses, and spoils those captures.
Status meet_captures(const Stream& stream);
Status unsafe_call_locked();
// Makes an action the next node of the stream's capture.
Status add_node(Stream& stream, double microseconds, Action action);
// Where the graph is launched whose nodes this thread runs.
StreamHandle launched_on();

}  // namespace gmlake::device::timeline
