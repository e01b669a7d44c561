// CUPTI: a profiler may attach and finds that nothing happened on the device.
#include <vector>

#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, invalid_parameter = 1, max_limit_reached = 12, queue_empty = 18 };

std::vector<std::uint64_t>& correlations() {
  thread_local std::vector<std::uint64_t> ids;
  return ids;
}

}  // namespace

GMLAKE_EXPORT int cuptiGetVersion(std::uint32_t* version) {
  *version = static_cast<std::uint32_t>(cuda_version()) * 10 + 1;
  return success;
}
GMLAKE_EXPORT int cuptiGetResultString(int result, const char** text) {
  *text = result == success ? "CUPTI_SUCCESS" : "not supported by the emulated device's CUPTI";
  return success;
}
GMLAKE_EXPORT int cuptiGetCallbackName(int, std::uint32_t, const char** name) {
  *name = "unknown";
  return success;
}
GMLAKE_EXPORT int cuptiSubscribe(void** subscriber, void*, void*) {
  return make<Opaque>(subscriber, invalid_parameter);
}
GMLAKE_EXPORT int cuptiUnsubscribe(void* subscriber) {
  return destroy<Opaque>(subscriber);
}
GMLAKE_EXPORT int cuptiGetTimestamp(std::uint64_t* nanoseconds) {
  *nanoseconds = 0;
  return success;
}
GMLAKE_EXPORT int cuptiActivityGetNextRecord(std::uint8_t*, std::size_t, void** record) {
  *record = nullptr;
  return max_limit_reached;
}
GMLAKE_EXPORT int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* count) {
  *count = 0;
  return success;
}
GMLAKE_EXPORT int cuptiActivityPushExternalCorrelationId(int, std::uint64_t id) {
  correlations().push_back(id);
  return success;
}
GMLAKE_EXPORT int cuptiActivityPopExternalCorrelationId(int, std::uint64_t* id) {
  if (correlations().empty()) return queue_empty;
  if (id != nullptr) *id = correlations().back();
  correlations().pop_back();
  return success;
}
