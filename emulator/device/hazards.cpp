// See hazards.h. Memory is followed by where it is physically, so that two address ranges on the same block meet here.
// For each span: its last writer and, since then, the last read of each stream. A span is split where accesses begin
// and end.
#include "device/hazards.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "device/diagnostics.h"
#include "device/memory.h"

namespace gmlake::device::hazards {
namespace {

struct Access {
  StreamId stream;
  Epoch epoch;
};

struct Span {
  off_t end = 0;
  Access writer{0, 0};  // epoch 0: nobody
  std::vector<Access> readers;
};

using Position = std::pair<int, off_t>;
using Spans = std::map<Position, Span>;

Spans& spans() {
  static Spans& alive = *new Spans;
  return alive;
}

std::atomic<int> count{0};

void split(Position at) {
  auto next = spans().upper_bound(at);
  if (next == spans().begin()) return;
  const auto before = std::prev(next);
  if (before->first.first != at.first || before->first.second >= at.second || before->second.end <= at.second) return;
  Span upper = before->second;
  before->second.end = at.second;
  spans().emplace_hint(next, at, std::move(upper));
}

// Makes spans begin and end exactly at the edges, and fills the gaps between them.
Spans::iterator carve(Position begin, off_t end) {
  split(begin);
  split({begin.first, end});
  off_t at = begin.second;
  while (at < end) {
    const auto next = spans().lower_bound({begin.first, at});
    const bool inside = next != spans().end() && next->first.first == begin.first && next->first.second < end;
    const off_t stop = inside ? next->first.second : end;
    if (stop > at) spans()[{begin.first, at}].end = stop;
    at = inside ? next->second.end : end;
  }
  return spans().find(begin);
}

void report(const char* what, Access earlier, StreamId stream, std::uintptr_t at, std::size_t size) {
  if (count.fetch_add(1) < 10)
    say("hazard: %s of %zu bytes at %p by stream %u is not ordered after stream %u's access to the same memory", what,
        size, reinterpret_cast<void*>(at), stream, earlier.stream);
}

}  // namespace

void access(StreamId stream, const Ordering& ordering, std::uintptr_t at, std::size_t size, bool write) {
  std::lock_guard guard(memory::lock());
  const Access now{stream, ordering.epoch(stream)};
  const auto unordered = [&](Access earlier) {
    return earlier.epoch != 0 && earlier.stream != stream && !ordering.knows(earlier.stream, earlier.epoch);
  };
  for (const memory::Piece& piece : memory::pieces(at, size)) {
    const Position begin{piece.block->file, piece.block->offset + static_cast<off_t>(piece.offset)};
    const off_t end = begin.second + static_cast<off_t>(piece.size);
    for (auto span = carve(begin, end);
         span != spans().end() && span->first.first == begin.first && span->first.second < end; ++span) {
      if (unordered(span->second.writer)) report(write ? "a write" : "a read", span->second.writer, stream, at, size);
      std::vector<Access>& readers = span->second.readers;
      if (write) {
        const auto reader = std::find_if(readers.begin(), readers.end(), unordered);
        if (reader != readers.end()) report("a write", *reader, stream, at, size);
        readers.clear();
        span->second.writer = now;
      } else {
        std::erase_if(readers, [&](Access earlier) { return earlier.stream == stream; });
        readers.push_back(now);
      }
    }
  }
}

void forget(const Block& block) {
  if (spans().empty()) return;
  const Position begin{block.file, block.offset};
  const off_t end = block.offset + static_cast<off_t>(block.size);
  spans().erase(carve(begin, end), spans().lower_bound({block.file, end}));
}

int found() {
  return count.load();
}

}  // namespace gmlake::device::hazards
