#include "edge/torch/sharing.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "driver/cuda.h"
#include "edge/process.h"

namespace gmlake {
namespace {

constexpr const char* mark = "gmlake-1";

CudaDriver& driver_of(int device) {
  return static_cast<CudaDriver&>(process_device(device).driver);  // as all drivers of this process are
}

// A file of another process, as one of our own.
int take_over(int process, int file) {
  const auto other = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  const auto taken = other < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, other, file, 0));
  const int error = errno;
  if (other >= 0) close(other);
  if (taken >= 0) return taken;
  std::string why = std::string("memory of process ") + std::to_string(process) + " cannot be opened: ";
  if (error == EPERM)
    why += "the kernel forbids it; allow it with kernel.yama.ptrace_scope=0 or the capability SYS_PTRACE";
  else if (error == ENOSYS)
    why += "the kernel is older than 5.6";
  else
    why += std::strerror(error);
  throw DriverError(why);
}

// Closed again, whatever happens.
struct Files {
  std::vector<CudaDriver::Shared> pieces;
  ~Files() {
    for (const CudaDriver::Shared& piece : pieces) close(piece.file);
  }
};

struct Opened {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<void>> runs;
};
Opened& opened() {
  static auto* const only = new Opened;  // tensors are freed until the very end of the process
  return *only;
}

std::shared_ptr<void> import(const std::string& handle) {
  std::istringstream text(handle);
  std::string begin;
  int process = 0, device = 0;
  std::size_t count = 0;
  if (!(text >> begin >> process >> device >> count) || begin != mark)
    throw InvalidArgument("this tensor was not shared by GMLake; let both processes run with GMLAKE=1");
  CudaDriver& driver = driver_of(device);
  Files files;
  Bytes total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    CudaDriver::Shared piece;
    int file = -1;
    if (!(text >> file >> piece.size >> piece.serial))
      throw InvalidArgument("the handle of a shared tensor is damaged: it ends after " + std::to_string(i) + " of " +
                            std::to_string(count) + " pieces");
    piece.file = take_over(process, file);
    files.pieces.push_back(piece);
    total += piece.size;
  }
  Address at = 0;
  if (const Status status = driver.import_run(files.pieces, at); status != Status::success)
    throw DriverError("shared memory of device " + std::to_string(device) +
                      " could not be mapped: " + std::string(to_string(status)));
  return {reinterpret_cast<void*>(at), [&driver, at, total](void*) { (void)driver.close_run(at, total); }};
}

}  // namespace

SharedBlock share_block(void* block) {
  const auto at = reinterpret_cast<Address>(block);
  int device = 0;
  const Allocator* const allocator = process_allocator_of(at, device);
  const Bytes size = allocator == nullptr ? 0 : allocator->block_size(at);
  if (size == 0) throw InvalidArgument("only tensors that GMLake allocated can be shared with another process");
  Address begin = 0;
  std::vector<CudaDriver::Shared> pieces;
  const Status status = driver_of(device).export_run(at, size, begin, pieces);
  if (status != Status::success)
    throw DriverError("memory of device " + std::to_string(device) + " cannot be shared with another process: " +
                      std::string(to_string(status)) + "; send a copy of the tensor on the CPU instead");
  std::ostringstream text;
  text << mark << ' ' << getpid() << ' ' << device << ' ' << pieces.size();
  for (const CudaDriver::Shared& piece : pieces) text << ' ' << piece.file << ' ' << piece.size << ' ' << piece.serial;
  return {static_cast<std::ptrdiff_t>(at - begin), text.str()};
}

std::shared_ptr<void> open_shared(const std::string& handle) {
  std::lock_guard lock(opened().mutex);
  std::weak_ptr<void>& known = opened().runs[handle];
  std::shared_ptr<void> run = known.lock();
  if (run == nullptr) {
    std::erase_if(opened().runs, [&](const auto& entry) { return entry.first != handle && entry.second.expired(); });
    known = run = import(handle);
  }
  return run;
}

}  // namespace gmlake
