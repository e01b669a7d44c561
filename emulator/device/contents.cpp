// See contents.h. Written bytes are known by where they are physically (file and offset), not by address: memory that
// is stitched into a second address range is the same memory.
#include "device/contents.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "device/configuration.h"
#include "device/diagnostics.h"

namespace gmlake::device::contents {
namespace {

using Position = std::pair<int, off_t>;  // file and offset
using Written = std::map<Position, off_t>;

Written& spans() {
  static Written& alive = *new Written;  // begin -> end offset, disjoint; guarded by memory's lock
  return alive;
}

std::atomic<Observer> observer{nullptr};

Position begin_of(const memory::Piece& piece) {
  return {piece.block->file, piece.block->offset + static_cast<off_t>(piece.offset)};
}

void add(Position begin, off_t end) {
  Written& all = spans();
  auto next = all.upper_bound(begin);
  if (next != all.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == begin.first && before->second >= begin.second) next = before;
  }
  while (next != all.end() && next->first.first == begin.first && next->first.second <= end) {
    begin.second = std::min(begin.second, next->first.second);
    end = std::max(end, next->second);
    next = all.erase(next);
  }
  all[begin] = end;
}

// Takes [begin, end) out of the written spans, calling back for each part that was in one.
template <class Each>
void remove(Position begin, off_t end, Each each) {
  Written& all = spans();
  auto next = all.upper_bound(begin);
  if (next != all.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == begin.first && before->second > begin.second) next = before;
  }
  while (next != all.end() && next->first.first == begin.first && next->first.second < end) {
    const off_t from = next->first.second, to = next->second;
    next = all.erase(next);
    if (from < begin.second) all[{begin.first, from}] = begin.second;
    if (to > end) next = all.emplace(Position{begin.first, end}, to).first;
    each(std::max(from, begin.second), std::min(to, end));
  }
}

// Large spans go back to the host as holes; small ones are overwritten.
void erase_bytes(const memory::Piece& piece, off_t from, off_t to) {
  const off_t begin = begin_of(piece).second;
  if (to - from >= off_t{1} << 20) {
    fallocate(piece.block->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from);
  } else {
    std::memset(reinterpret_cast<void*>(piece.at + static_cast<std::size_t>(from - begin)), 0,
                static_cast<std::size_t>(to - from));
  }
}

bool on_device(Address at) {
  Address base;
  memory::Range range;
  return memory::describe(at, base, range) && !range.host();
}

}  // namespace

void written(Address at, std::size_t size) {
  if (configuration().computes()) return;
  std::lock_guard guard(memory::lock());
  for (const memory::Piece& piece : memory::pieces(at, size)) {
    const Position begin = begin_of(piece);
    add(begin, begin.second + static_cast<off_t>(piece.size));
  }
}

void fresh(Address at, std::size_t size) {
  if (configuration().computes()) return;  // every byte is then written by somebody, and nothing is stale
  std::lock_guard guard(memory::lock());
  if (spans().empty()) return;
  for (const memory::Piece& piece : memory::pieces(at, size)) {
    const Position begin = begin_of(piece);
    remove(begin, begin.second + static_cast<off_t>(piece.size),
           [&](off_t from, off_t to) { erase_bytes(piece, from, to); });
  }
}

void forget(const Block& block) {
  remove({block.file, block.offset}, block.offset + static_cast<off_t>(block.size), [](off_t, off_t) {});
}

Status move(Address to, Address from, std::size_t size) {
  if (size == 0) return Status::success;
  for (const Address at : {to, from}) {
    const Status status = memory::accessible(at, size);
    if (status == Status::success) continue;
    say("a copy of %zu bytes from %p to %p touches device memory without access", size, reinterpret_cast<void*>(from),
        reinterpret_cast<void*>(to));
    return status;
  }
  const bool to_device = on_device(to);
  if (size <= configuration().data_limit) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
    if (to_device) written(to, size);
  } else if (to_device) {
    fresh(to, size);
  }
  if (!to_device && on_device(from)) {
    if (const Observer told = observer.load()) told(reinterpret_cast<const void*>(from), size);
  }
  return Status::success;
}

Status fill(Address at, std::uint32_t pattern, std::size_t width, std::size_t count) {
  const std::size_t size = width * count;
  if (size == 0) return Status::success;
  const Status status = memory::accessible(at, size);
  if (status != Status::success) {
    say("a fill of %zu bytes at %p touches device memory without access", size, reinterpret_cast<void*>(at));
    return status;
  }
  const bool by_forgetting = pattern == 0 && !configuration().computes() && on_device(at);
  if (by_forgetting || size > configuration().data_limit) {
    fresh(at, size);
    return Status::success;
  }
  if (width == 1) {
    std::memset(reinterpret_cast<void*>(at), static_cast<int>(pattern), size);
  } else {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(reinterpret_cast<char*>(at) + i * width, &pattern, width);
  }
  written(at, size);
  return Status::success;
}

void observe(Observer told) {
  observer.store(told);
}

}  // namespace gmlake::device::contents
