#include "baselines/paper_blocks.h"

#include <algorithm>

namespace gmlake {
namespace {

// Maps chunks in a row into a new range. As in the published code every chunk has its own access call.
Status map_all(Driver& driver, const std::vector<Handle>& chunks, Bytes chunk, Address& range) {
  const Bytes size = chunks.size() * chunk;
  Status status = driver.reserve(size, range);
  if (status != Status::success) return status;
  Bytes mapped = 0;
  for (auto handle = chunks.begin(); handle != chunks.end() && status == Status::success; ++handle) {
    status = driver.map(range + mapped, chunk, *handle);
    if (status != Status::success) break;
    mapped += chunk;
    status = driver.set_access(range + mapped - chunk, chunk);
  }
  if (status == Status::success) return status;
  if (mapped > 0) (void)driver.unmap(range, mapped);
  (void)driver.free_range(range, size);
  return status;
}

}  // namespace

Status ChunkSegment::give_back(Driver& driver) {
  if (!chunks.empty()) {
    if (const Status status = driver.unmap(address, size); status != Status::success) return status;
    for (const Handle handle : chunks) (void)driver.release(handle);
    chunks.clear();
  }
  return driver.free_range(address, size);
}

void ChunkSegment::mark(const Block* block, bool in_use) {
  const auto begin = busy.begin() + static_cast<std::ptrdiff_t>((block->address - address) / chunk);
  std::fill(begin, begin + static_cast<std::ptrdiff_t>(block->size / chunk), in_use);
}

// The chunk that stood in the way last time mostly still does: it is looked at first.
bool StitchedBlock::available() {
  if (!whole()) return false;
  if (blocker.segment != nullptr && blocker.segment->busy[blocker.first]) return false;
  for (const ChunkRun& run : runs) {
    const auto first = run.segment->busy.begin() + static_cast<std::ptrdiff_t>(run.first);
    const auto last = first + static_cast<std::ptrdiff_t>(run.count);
    const auto found = std::find(first, last, true);
    if (found == last) continue;
    blocker = {run.segment, static_cast<std::size_t>(found - run.segment->busy.begin()), 1};
    return false;
  }
  blocker = {};
  return true;
}

Status create_chunks(Driver& driver, Bytes size, Bytes chunk, Address& range, std::vector<Handle>& chunks) {
  Status status = Status::success;
  while (chunks.size() < size / chunk && status == Status::success) {
    Handle handle = 0;
    status = driver.create(chunk, handle);
    if (status == Status::success) chunks.push_back(handle);
  }
  if (status == Status::success) status = map_all(driver, chunks, chunk, range);
  if (status == Status::success) return status;
  for (const Handle handle : chunks) (void)driver.release(handle);
  chunks.clear();
  return status;
}

Status map_again(Driver& driver, const std::vector<ChunkRun>& runs, Bytes chunk, Address& range) {
  std::vector<Handle> chunks;
  for (const ChunkRun& run : runs) {
    const auto first = run.segment->chunks.begin() + static_cast<std::ptrdiff_t>(run.first);
    chunks.insert(chunks.end(), first, first + static_cast<std::ptrdiff_t>(run.count));
  }
  return map_all(driver, chunks, chunk, range);
}

}  // namespace gmlake
