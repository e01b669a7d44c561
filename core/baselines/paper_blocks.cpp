#include "baselines/paper_blocks.h"

#include <algorithm>

namespace gmlake {
namespace {

Status map_chunk(Driver& driver, Address at, Bytes chunk, Handle handle) {
  Status status = driver.map(at, chunk, handle);
  if (status != Status::success) return status;
  status = driver.set_access(at, chunk);
  if (status != Status::success) static_cast<void>(driver.unmap(at, chunk));
  return status;
}

void unmap_and_free(Driver& driver, Address range, Bytes mapped, Bytes size) {
  if (mapped > 0) static_cast<void>(driver.unmap(range, mapped));
  static_cast<void>(driver.free_range(range, size));
}

}  // namespace

Status ChunkSegment::give_back(Driver& driver) {
  if (!chunks.empty()) {
    if (const Status status = driver.unmap(address, size); status != Status::success) return status;
    for (const Handle handle : chunks) static_cast<void>(driver.release(handle));
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
  Status status = driver.reserve(size, range);
  if (status != Status::success) return status;
  Bytes mapped = 0;
  while (mapped < size && status == Status::success) {
    Handle handle = 0;
    status = driver.create(chunk, handle);
    if (status != Status::success) break;
    chunks.push_back(handle);
    status = map_chunk(driver, range + mapped, chunk, handle);
    if (status == Status::success) mapped += chunk;
  }
  if (status == Status::success) return status;
  unmap_and_free(driver, range, mapped, size);
  for (const Handle handle : chunks) static_cast<void>(driver.release(handle));
  chunks.clear();
  return status;
}

Status map_again(Driver& driver, const std::vector<ChunkRun>& runs, Bytes size, Address& range) {
  Status status = driver.reserve(size, range);
  if (status != Status::success) return status;
  Bytes mapped = 0;
  for (const ChunkRun& run : runs) {
    const Bytes chunk = run.segment->chunk;
    for (std::size_t i = run.first; i < run.first + run.count && status == Status::success; ++i) {
      status = map_chunk(driver, range + mapped, chunk, run.segment->chunks[i]);
      if (status == Status::success) mapped += chunk;
    }
  }
  if (status != Status::success) unmap_and_free(driver, range, mapped, size);
  return status;
}

}  // namespace gmlake
