// Runtime entry points about devices, errors, versions and peers.
#include <atomic>
#include <cstdio>

#include "runtime/abi.h"

using namespace gmlake::device;
using namespace gmlake::runtime;
using gmlake::driver::attribute;

namespace {

constexpr int version = 13000;
thread_local Error last = 0;
std::atomic<std::uint64_t> enabled_peers[most_devices];

}  // namespace

namespace gmlake::runtime {

Error result(Status status) {
  // The runtime checks for devices before it looks at a device's number.
  if (status == Status::invalid_device && visible::count() == 0) status = Status::no_device;
  const Error error = static_cast<Error>(status);
  if (status != Status::success && status != Status::not_ready) last = error;
  return error;
}

Error last_error(bool clear) {
  const Error error = last;
  if (clear) last = 0;
  return error;
}

}  // namespace gmlake::runtime

extern "C" int cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, int*);

GMLAKE_EXPORT Error cudaGetLastError() {
  return last_error(true);
}
GMLAKE_EXPORT Error cudaPeekAtLastError() {
  return last_error(false);
}

GMLAKE_EXPORT const char* cudaGetErrorString(Error error) {
  const char* text = description(error);
  return text == nullptr ? "unrecognized error code" : text;
}
GMLAKE_EXPORT const char* cudaGetErrorName(Error error) {
  const char* text = runtime_name(error);
  return text == nullptr ? "unrecognized error code" : text;
}

GMLAKE_EXPORT Error cudaGetDeviceCount(int* count) {
  *count = visible::count();
  return *count > 0 ? 0 : result(Status::no_device);
}
GMLAKE_EXPORT Error cudaGetDevice(int* device) {
  *device = current_device();
  return visible::count() > 0 ? 0 : result(Status::no_device);
}
GMLAKE_EXPORT Error cudaSetDevice(int device) {
  if (!exists(device)) return result(Status::invalid_device);
  timeline::set_device(device);
  return 0;
}
GMLAKE_EXPORT Error cudaInitDevice(int device, unsigned, unsigned) {
  return exists(device) ? 0 : result(Status::invalid_device);
}
GMLAKE_EXPORT Error cudaSetDeviceFlags(unsigned) {
  return 0;
}
GMLAKE_EXPORT Error cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return 0;
}
GMLAKE_EXPORT Error cudaDeviceReset() {
  return gmlake_device_unimplemented("cudaDeviceReset", 801);
}
GMLAKE_EXPORT Error cudaDeviceSynchronize() {
  return result(timeline::synchronize_device(current_device()));
}

GMLAKE_EXPORT Error cudaDriverGetVersion(int* number) {
  *number = version;
  return 0;
}
GMLAKE_EXPORT Error cudaRuntimeGetVersion(int* number) {
  *number = version;
  return 0;
}

GMLAKE_EXPORT Error cudaDeviceGetAttribute(int* value, int number, int device) {
  if (!exists(device)) return result(Status::invalid_device);
  *value = attribute(number, device);
  return 0;
}
GMLAKE_EXPORT Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = timeline::least_priority;
  if (greatest != nullptr) *greatest = timeline::greatest_priority;
  return 0;
}
GMLAKE_EXPORT Error cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!exists(device)) return result(Status::invalid_device);
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", visible::physical(device) + 1);
  return 0;
}

GMLAKE_EXPORT Error cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!exists(device) || !exists(peer)) return result(Status::invalid_device);
  *can = peers::reachable(device, peer);
  return 0;
}
GMLAKE_EXPORT Error cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!exists(peer) || peer == current_device()) return result(Status::invalid_device);
  if (!peers::reachable(current_device(), peer)) return result(Status::peer_access_unsupported);
  if (const Status refused = peers::connect(current_device(), peer); refused != Status::success) return result(refused);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool enabled = (enabled_peers[current_device()].fetch_or(bit) & bit) != 0;
  return enabled ? result(Status::peer_access_already_enabled) : 0;
}
GMLAKE_EXPORT Error cudaDeviceDisablePeerAccess(int peer) {
  if (!exists(peer)) return result(Status::invalid_device);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  const bool enabled = (enabled_peers[current_device()].fetch_and(~bit) & bit) != 0;
  return enabled ? 0 : result(Status::peer_access_not_enabled);
}

GMLAKE_EXPORT Error cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned number,
                                                     unsigned long long flags, int* found) {
  int missing = 0;
  cuGetProcAddress_v2(symbol, function, static_cast<int>(number), flags, &missing);
  if (found != nullptr) *found = missing;
  return 0;
}
GMLAKE_EXPORT Error cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags, int* found) {
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, found);
}

GMLAKE_EXPORT Error cudaProfilerStart() {
  return 0;
}
GMLAKE_EXPORT Error cudaProfilerStop() {
  return 0;
}
