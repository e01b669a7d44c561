// Memory and events shared between processes (cudaIpc*): the handle names the process and its file, which another
// process of the same user opens through /proc. Emulated clocks are a process's own: an event from elsewhere is
// finished.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "runtime/abi.h"

using namespace gmlake::device;
using namespace gmlake::runtime;

namespace {

constexpr std::uint32_t mark = 0x474d4c4b;

struct SharedMemory {
  std::uint32_t mark;
  int process, file;
  int device;  // of the machine
  std::int64_t offset;
  std::uint64_t size;
};
static_assert(sizeof(SharedMemory) <= sizeof(SharedHandle));

}  // namespace

GMLAKE_EXPORT Error cudaIpcGetMemHandle(SharedHandle* handle, void* at) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(address(at), base, range) || range.kind != memory::Kind::allocation)
    return result(Status::invalid_value);
  const SharedMemory shared{
      mark, getpid(), range.block->file, visible::physical(range.device), range.block->offset, range.size};
  *handle = {};
  std::memcpy(handle->bytes, &shared, sizeof shared);
  return 0;
}

GMLAKE_EXPORT Error cudaIpcOpenMemHandle(void** at, SharedHandle handle, unsigned) {
  SharedMemory shared{};
  std::memcpy(&shared, handle.bytes, sizeof shared);
  if (shared.mark != mark || shared.process == getpid()) return result(Status::invalid_value);
  const std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return result(Status::map_failed);
  memory::Address place = 0;
  // CUDA opens what lies on a device that this process does not see, too: as memory of the current one.
  const int device = visible::ordinal(shared.device, current_device());
  const Status status = memory::open_shared(file, shared.offset, shared.size, device, place);
  *at = pointer(place);
  return result(status);
}

GMLAKE_EXPORT Error cudaIpcCloseMemHandle(void* at) {
  return result(memory::free(address(at)));
}

GMLAKE_EXPORT Error cudaIpcGetEventHandle(SharedHandle* handle, Event event) {
  if (const Status refused = timeline::shareable(event); refused != Status::success) return result(refused);
  *handle = {};
  std::memcpy(handle->bytes, &mark, sizeof mark);
  return 0;
}

GMLAKE_EXPORT Error cudaIpcOpenEventHandle(Event* event, SharedHandle handle) {
  if (std::memcmp(handle.bytes, &mark, sizeof mark) != 0) return result(Status::invalid_value);
  return result(timeline::create_shared_event(current_device(), *event));
}
