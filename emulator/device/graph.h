// Captures and the graphs they become. A node is what enqueue would have done: a duration and an action. Dependencies
// between nodes are not kept, because actions run in the order of capture, which respects all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "device/status.h"

namespace gmlake::device {

using Action = std::function<void()>;

struct Node {
  double microseconds = 0;
  Action action;
};

// Something that lives as long as the graphs that retain it (cudaUserObject).
struct UserObject {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
  unsigned references = 0;
};
void release(UserObject* object, unsigned count);

struct Graph {
  std::vector<Node> nodes;
  std::vector<UserObject*> retained;

  Graph() = default;
  Graph(const Graph& other);
  Graph& operator=(const Graph&) = delete;
  ~Graph();
};

enum class CaptureMode { global = 0, thread_local_only = 1, relaxed = 2 };

struct Capture {
  std::uint64_t id = 0;
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread;
  std::uint32_t origin = 0;  // the stream it began in
  bool invalidated = false;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
};

// Which captures forbid the calling thread what is unsafe during one; returns the mode before.
CaptureMode exchange_capture_mode(CaptureMode mode);
CaptureMode capture_mode();

}  // namespace gmlake::device
