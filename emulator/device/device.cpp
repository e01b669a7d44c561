// See device.h.
#include "device/device.h"

namespace gmlake::device {
namespace {

Status copy_checked(void* to, const void* from, std::size_t size, StreamHandle stream, bool wait) {
  if (size > 0 && (to == nullptr || from == nullptr)) return Status::invalid_value;
  if (const Status status = readable(from, size); status != Status::success) return move(to, from, size);
  if (const Status status = writable(to, size); status != Status::success) return move(to, from, size);
  const double microseconds = configuration().copy_microseconds(size);
  // The addresses were good when the work was enqueued; should they not be any more, move says so.
  const auto action = [=] { static_cast<void>(move(to, from, size)); };
  const Status status =
      wait ? timeline::enqueue_and_wait(stream, microseconds, action) : timeline::enqueue(stream, microseconds, action);
  if (status != Status::success) return status;
  timeline::touch(stream, address(from), size, false);
  timeline::touch(stream, address(to), size, true);
  return status;
}

}  // namespace

Status copy(void* to, const void* from, std::size_t size, StreamHandle stream, bool wait) {
  if (visible::count() > 1 && !memory::common_access(address(to), address(from))) return Status::invalid_value;
  return copy_checked(to, from, size, stream, wait);
}

Status copy_between_peers(void* to, const void* from, std::size_t size, StreamHandle stream) {
  return copy_checked(to, from, size, stream, false);
}

Status fill(void* at, std::uint32_t pattern, std::size_t width, std::size_t count, StreamHandle stream, bool wait) {
  const std::size_t size = width * count;
  memory::Address base = 0;
  memory::Range range;
  const bool known = memory::describe(address(at), base, range) || readable(at, size) != Status::success;
  if (size > 0 && !known) return Status::invalid_value;  // memory that the device does not have
  const auto action = [=] { static_cast<void>(contents::fill(address(at), pattern, width, count)); };
  if (writable(at, size) != Status::success) return contents::fill(address(at), pattern, width, count);
  const double microseconds = configuration().copy_microseconds(size);
  const Status status =
      wait ? timeline::enqueue_and_wait(stream, microseconds, action) : timeline::enqueue(stream, microseconds, action);
  if (status == Status::success) timeline::touch(stream, address(at), size, true);
  return status;
}

Status kernel(StreamHandle stream) {
  return enqueue(stream, configuration().kernel_microseconds, nullptr);
}

}  // namespace gmlake::device
