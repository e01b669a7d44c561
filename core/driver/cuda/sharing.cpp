// Memory that processes share: a chunk is exported as an open file, which another process takes over and imports.
#include <unistd.h>

#include <algorithm>

#include "driver/cuda.h"

namespace gmlake {

using cuda::Result;

Status CudaDriver::export_run(Address at, Bytes size, Address& begin, std::vector<Shared>& pieces) {
  if (!shareable_) return Status::not_supported;
  std::lock_guard lock(mappings_mutex_);
  auto mapping = mappings_.upper_bound(at);
  if (mapping == mappings_.begin()) return Status::invalid_value;
  begin = (--mapping)->first;
  pieces.clear();
  for (Address reached = begin; reached < at + size; ++mapping) {
    if (mapping == mappings_.end() || mapping->first != reached) return Status::invalid_value;
    Shared& shared = exported_[mapping->second.handle];
    if (shared.file < 0) {
      const Status status =
          call([&] { return cuda_.export_handle(&shared.file, mapping->second.handle, cuda::as_file, 0); }).status;
      if (status != Status::success) {
        exported_.erase(mapping->second.handle);
        return status;
      }
      shared.size = mapping->second.size;
      shared.serial = ++exports_;
    }
    pieces.push_back(shared);
    reached += mapping->second.size;
  }
  return Status::success;
}

void CudaDriver::forget_export(Handle handle) {
  std::lock_guard lock(mappings_mutex_);
  const auto found = exported_.find(handle);
  if (found == exported_.end()) return;
  close(found->second.file);
  exported_.erase(found);
}

Status CudaDriver::import_run(std::span<const Shared> pieces, Address& at) {
  Bytes total = 0;
  for (const Shared& piece : pieces) total += piece.size;
  if (const Status status = reserve(total, at); status != Status::success) return status;
  Status status = Status::success;
  Address end = at;
  for (const Shared& piece : pieces) {
    cuda::AllocationHandle handle = 0;
    void* const file = reinterpret_cast<void*>(static_cast<std::intptr_t>(piece.file));
    status = call([&] { return cuda_.import_handle(&handle, file, cuda::as_file); }).status;
    if (status != Status::success) break;
    status = map(end, piece.size, handle);
    (void)release(handle);  // the mapping keeps the memory
    if (status != Status::success) break;
    end += piece.size;
  }
  if (status == Status::success) status = set_access(at, total);
  if (status == Status::success) return status;
  if (end > at) (void)unmap(at, end - at);
  (void)free_range(at, total);
  return status;
}

Status CudaDriver::close_run(Address at, Bytes size) {
  if (const Status status = call([&] { return cuda_.context_synchronize(); }).status; status != Status::success)
    return status;
  if (const Status status = unmap(at, size); status != Status::success) return status;
  return free_range(at, size);
}

}  // namespace gmlake
