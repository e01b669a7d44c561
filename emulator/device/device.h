// What the entry points and the stand-in libraries see of the device, in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/capacity.h"
#include "device/configuration.h"
#include "device/contents.h"
#include "device/diagnostics.h"
#include "device/memory.h"
#include "device/peers.h"
#include "device/status.h"
#include "device/timeline.h"
#include "device/visible.h"

#define GMLAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace gmlake::device {

using timeline::current_device;
using timeline::enqueue;
using timeline::StreamHandle;

inline memory::Address address(const void* pointer) {
  return reinterpret_cast<memory::Address>(pointer);
}
inline void* pointer(memory::Address at) {
  return reinterpret_cast<void*>(at);
}

inline Status readable(const void* at, std::size_t size) {
  return memory::accessible(address(at), size);
}
inline Status writable(const void* at, std::size_t size) {
  return memory::accessible(address(at), size);
}
inline Status move(void* to, const void* from, std::size_t size) {
  return contents::move(address(to), address(from), size);
}
inline bool exists(int device) {
  return device >= 0 && device < visible::count();
}

// One of a stream's properties; 0 if there is no such stream.
template <class Property, class Value>
Status stream_property(StreamHandle stream, Property timeline::StreamProperties::* which, Value* value) {
  timeline::StreamProperties properties{};
  const Status status = timeline::properties(stream, properties);
  *value = properties.*which;
  return status;
}

// A copy or a fill as work of a stream. Addresses are checked at once; `wait` lets the host wait for the end.
Status copy(void* to, const void* from, std::size_t size, StreamHandle stream, bool wait);
// The same for devices that need not reach each other's memory.
Status copy_between_peers(void* to, const void* from, std::size_t size, StreamHandle stream);
Status fill(void* at, std::uint32_t pattern, std::size_t width, std::size_t count, StreamHandle stream, bool wait);
// A kernel: takes time, does nothing.
Status kernel(StreamHandle stream);

}  // namespace gmlake::device
