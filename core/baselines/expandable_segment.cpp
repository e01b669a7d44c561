#include "baselines/expandable_segment.h"

#include <algorithm>

#include "base/units.h"
#include "baselines/failures.h"

namespace gmlake {

Bytes ExpandableSegment::map(Driver& driver, Address at, Bytes bytes) {
  const Bytes wanted = round_up(bytes, page);
  std::vector<Handle> created;
  Status status = Status::success;
  while (created.size() < wanted / page && status == Status::success) {
    Handle handle = 0;
    status = driver.create(page, handle);
    if (status == Status::success) created.push_back(handle);
  }
  Bytes mapped = 0;
  for (auto handle = created.begin(); mapped < wanted && status == Status::success; ++handle) {
    status = driver.map(at + mapped, page, *handle);
    if (status == Status::success) mapped += page;
  }
  if (status == Status::success) status = driver.set_access(at, wanted);
  if (status != Status::success) {
    if (mapped > 0) (void)driver.unmap(at, mapped);
    for (const Handle handle : created) (void)driver.release(handle);
    if (status != Status::out_of_memory) expect_success(status, "map");
    return 0;
  }
  handles.resize(std::max(handles.size(), page_at(at) + created.size()));
  std::copy(created.begin(), created.end(), handles.begin() + static_cast<std::ptrdiff_t>(page_at(at)));
  return wanted;
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
    (void)driver.release(handles[i]);
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
