// See graph.h.
#include "device/graph.h"

namespace gmlake::device {
namespace {

thread_local CaptureMode mode_of_thread = CaptureMode::global;

}  // namespace

void release(UserObject* object, unsigned count) {
  object->references -= count < object->references ? count : object->references;
  if (object->references > 0) return;
  if (object->destroy != nullptr) object->destroy(object->object);
  delete object;
}

Graph::Graph(const Graph& other) : nodes(other.nodes), retained(other.retained) {
  for (UserObject* object : retained) ++object->references;
}

Graph::~Graph() {
  for (UserObject* object : retained) release(object, 1);
}

CaptureMode capture_mode() {
  return mode_of_thread;
}

CaptureMode exchange_capture_mode(CaptureMode mode) {
  const CaptureMode before = mode_of_thread;
  mode_of_thread = mode;
  return before;
}

}  // namespace gmlake::device
