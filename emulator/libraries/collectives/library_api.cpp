// The rest of NCCL's entry points: version, errors, buffers. Windows, one-sided messages and device-side communication
// are not emulated: kernels do nothing, so that nobody would take part in them.
#include "device/device.h"
#include "libraries/collectives/communicator.h"

namespace collectives = gmlake::collectives;
namespace memory = gmlake::device::memory;
using collectives::Result;

GMLAKE_EXPORT int ncclGetVersion(int* version) {
  if (version == nullptr) return static_cast<int>(Result::invalid_argument);
  *version = collectives::version;
  return 0;
}

GMLAKE_EXPORT const char* ncclGetErrorString(int result) {
  switch (static_cast<Result>(result)) {
    case Result::success:
      return "no error";
    case Result::device_error:
      return "unhandled cuda error";
    case Result::system_error:
      return "unhandled system error";
    case Result::internal_error:
      return "internal error";
    case Result::invalid_argument:
      return "invalid argument";
    case Result::invalid_usage:
      return "invalid usage";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    case Result::in_progress:
      return "operation in progress";
  }
  return "unknown result code";
}

GMLAKE_EXPORT const char* ncclGetLastError(void*) {
  thread_local std::string kept;
  kept = collectives::last_error();
  return kept.c_str();
}

GMLAKE_EXPORT int ncclMemAlloc(void** at, std::size_t size) {
  if (at == nullptr || size == 0) return static_cast<int>(Result::invalid_argument);
  const std::size_t granularity = gmlake::device::granularity;
  const std::size_t rounded = (size + granularity - 1) / granularity * granularity;
  memory::Address address = 0;
  if (memory::allocate(rounded, gmlake::device::current_device(), address) != gmlake::device::Status::success)
    return static_cast<int>(Result::device_error);
  *at = gmlake::device::pointer(address);
  return 0;
}

GMLAKE_EXPORT int ncclMemFree(void* at) {
  const bool freed = memory::free(gmlake::device::address(at)) == gmlake::device::Status::success;
  return static_cast<int>(freed ? Result::success : Result::invalid_argument);
}

// A registered buffer would be used without a detour; here there is none. The handle is the buffer itself.
GMLAKE_EXPORT int ncclCommRegister(void* communicator, void* buffer, std::size_t size, void** handle) {
  if (!collectives::find(communicator) || handle == nullptr || buffer == nullptr)
    return static_cast<int>(Result::invalid_argument);
  if (gmlake::device::readable(buffer, size) != gmlake::device::Status::success)
    return static_cast<int>(Result::invalid_argument);
  *handle = buffer;
  return 0;
}

GMLAKE_EXPORT int ncclCommDeregister(void* communicator, void*) {
  return static_cast<int>(collectives::find(communicator) ? Result::success : Result::invalid_argument);
}

#define GMLAKE_UNIMPLEMENTED(name)                                                      \
  GMLAKE_EXPORT int name() {                                                            \
    return gmlake_device_unimplemented(#name, static_cast<int>(Result::invalid_usage)); \
  }

GMLAKE_UNIMPLEMENTED(ncclCommGetUniqueId)
GMLAKE_UNIMPLEMENTED(ncclCommGrow)
GMLAKE_UNIMPLEMENTED(ncclCommWindowDeregister)
GMLAKE_UNIMPLEMENTED(ncclCommWindowRegister)
GMLAKE_UNIMPLEMENTED(ncclDevCommCreate)
GMLAKE_UNIMPLEMENTED(ncclDevCommDestroy)
GMLAKE_UNIMPLEMENTED(ncclGetLsaMultimemDevicePointer)
GMLAKE_UNIMPLEMENTED(ncclGetPeerDevicePointer)
GMLAKE_UNIMPLEMENTED(ncclGroupSimulateEnd)
GMLAKE_UNIMPLEMENTED(ncclPutSignal)
GMLAKE_UNIMPLEMENTED(ncclSignal)
GMLAKE_UNIMPLEMENTED(ncclWaitSignal)
GMLAKE_UNIMPLEMENTED(ncclWinGetUserPtr)
