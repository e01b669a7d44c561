#include "driver/cuda/library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace gmlake::cuda {
namespace {

constexpr int oldest_version = 11020;  // virtual memory management as we use it came with 11.2
constexpr const char* library_name = "libcuda.so.1";

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr)
    throw DriverError(std::string(library_name) + " has no function " + name +
                      "; install an NVIDIA driver for CUDA 11.2 or newer");
}

Functions find_all(void* handle) {
  Functions f{};
  find(handle, "cuInit", f.init);
  find(handle, "cuDriverGetVersion", f.driver_version);
  find(handle, "cuGetErrorString", f.error_string);
  find(handle, "cuDeviceGetCount", f.device_count);
  find(handle, "cuDeviceGet", f.device_get);
  find(handle, "cuDeviceGetAttribute", f.device_attribute);
  find(handle, "cuDeviceCanAccessPeer", f.device_can_access_peer);
  find(handle, "cuDevicePrimaryCtxRetain", f.primary_context_retain);
  find(handle, "cuDevicePrimaryCtxRelease_v2", f.primary_context_release);
  find(handle, "cuCtxGetCurrent", f.context_get);
  find(handle, "cuCtxPushCurrent_v2", f.context_push);
  find(handle, "cuCtxPopCurrent_v2", f.context_pop);
  find(handle, "cuCtxSynchronize", f.context_synchronize);
  find(handle, "cuMemGetAllocationGranularity", f.granularity);
  find(handle, "cuMemAddressReserve", f.address_reserve);
  find(handle, "cuMemAddressFree", f.address_free);
  find(handle, "cuMemCreate", f.create);
  find(handle, "cuMemRelease", f.release);
  find(handle, "cuMemMap", f.map);
  find(handle, "cuMemUnmap", f.unmap);
  find(handle, "cuMemSetAccess", f.set_access);
  find(handle, "cuMemExportToShareableHandle", f.export_handle);
  find(handle, "cuMemImportFromShareableHandle", f.import_handle);
  find(handle, "cuMemAlloc_v2", f.allocate);
  find(handle, "cuMemFree_v2", f.free);
  find(handle, "cuMemGetInfo_v2", f.memory_info);
  find(handle, "cuEventCreate", f.event_create);
  find(handle, "cuEventDestroy_v2", f.event_destroy);
  find(handle, "cuEventRecord", f.event_record);
  find(handle, "cuEventQuery", f.event_query);
  find(handle, "cuEventSynchronize", f.event_synchronize);
  find(handle, "cuStreamWaitEvent", f.stream_wait_event);
  find(handle, "cuStreamSynchronize", f.stream_synchronize);
  find(handle, "cuStreamIsCapturing", f.stream_is_capturing);
  find(handle, "cuThreadExchangeStreamCaptureMode", f.exchange_capture_mode);
  return f;
}

// The library is never closed: memory may be freed until the very end of the process.
Functions load() {
  void* handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw DriverError("the CUDA driver library " + std::string(library_name) + " was not found (" + dlerror() +
                      "); install the NVIDIA driver, or use the simulated driver");
  const Functions f = find_all(handle);
  int version = 0;
  if (f.driver_version(&version) != Result::success || version < oldest_version)
    throw DriverError("the NVIDIA driver supports CUDA " + std::to_string(version / 1000) + "." +
                      std::to_string(version % 1000 / 10) + "; install one for CUDA 11.2 or newer");
  const Result result = f.init(0);
  if (result != Result::success && result != Result::no_device)
    throw DriverError("the CUDA driver did not start: " + describe(f, result) + "; see what nvidia-smi says");
  return f;
}

}  // namespace

const Functions& library() {
  static const Functions functions = load();
  return functions;
}

int device_count() {
  int count = 0;
  const Result result = library().device_count(&count);
  if (result == Result::success) return count;
  if (result == Result::no_device || result == Result::not_initialized) return 0;
  throw DriverError("the devices could not be counted: " + describe(library(), result));
}

std::string describe(const Functions& functions, Result result) {
  const char* text = nullptr;
  const bool known = functions.error_string(result, &text) == Result::success && text != nullptr;
  return std::string(known ? text : "unknown error") + " (CUDA error " + std::to_string(static_cast<int>(result)) + ")";
}

}  // namespace gmlake::cuda
