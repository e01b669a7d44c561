#include "baselines/expandable_segment.h"

#include "base/units.h"
#include "baselines/failures.h"

namespace gmlake {

Bytes ExpandableSegment::map(Driver& driver, Address at, Bytes bytes) {
  const std::size_t begin = page_at(at);
  const std::size_t end = begin + round_up(bytes, page) / page;
  if (end > handles.size()) handles.resize(end);
  std::size_t mapped = begin;
  Status status = Status::success;
  for (; mapped < end && status == Status::success; ++mapped) {
    Handle handle = 0;
    status = driver.create(page, handle);
    if (status != Status::success) break;
    status = driver.map(address + mapped * page, page, handle);
    if (status != Status::success) {
      static_cast<void>(driver.release(handle));
      break;
    }
    handles[mapped] = handle;
  }
  if (status == Status::success) status = driver.set_access(at, (end - begin) * page);
  if (status == Status::success) return (end - begin) * page;
  if (mapped > begin) expect_success(unmap(driver, at, address + mapped * page), "unmap");
  if (status != Status::out_of_memory) expect_success(status, "map");
  return 0;
}

bool ExpandableSegment::whole_pages(Address at, Bytes bytes, Address& begin, Address& end) const {
  begin = address + round_up(at - address, page);
  end = address + round_down(at + bytes - address, page);
  return begin < end;
}

Status ExpandableSegment::unmap(Driver& driver, Address begin, Address end) {
  const Status status = driver.unmap(begin, end - begin);
  if (status != Status::success) return status;
  for (std::size_t i = page_at(begin); i < page_at(end); ++i) {
    static_cast<void>(driver.release(handles[i]));
    handles[i] = 0;
  }
  return Status::success;
}

Status ExpandableSegment::give_back(Driver& driver) {
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == 0) continue;
    const Address at = address + i * page;
    if (const Status status = unmap(driver, at, at + page); status != Status::success) return status;
  }
  return driver.free_range(address, size);
}

}  // namespace gmlake
