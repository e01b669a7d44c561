// See pool.h. Best fit within segments that are mapped memory of their own; neighbours of a freed block join it again.
#include "device/pool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "device/clock.h"
#include "device/configuration.h"
#include "device/peers.h"

namespace gmlake::device::pool {
namespace {

using memory::Address;

constexpr std::size_t unit = 512;
constexpr std::size_t segment_size = std::size_t{32} << 20;

struct Piece {
  std::size_t size = 0;
  bool free = true;
  timeline::StreamHandle stream = nullptr;  // that freed it
  Nanoseconds ready = 0;                    // when other streams may have it
  Ordering freed;                           // what was told to the device before it was freed
};

struct Segment {
  std::size_t size = 0;
  memory::Handle handle = 0;
  std::map<Address, Piece> pieces;

  bool unused() const { return pieces.size() == 1 && pieces.begin()->second.free; }
};

struct Pool {
  std::map<Address, Segment> segments;
  std::set<int> peers;  // other devices that may use the memory
  Usage usage;
};

std::mutex lock;
Pool pools[most_devices];

bool serves(const Piece& piece, std::size_t size, timeline::StreamHandle stream) {
  return piece.free && piece.size >= size && (piece.stream == stream || piece.ready <= now());
}

void give_back(Pool& pool, std::map<Address, Segment>::iterator segment) {
  const auto [at, body] = *segment;
  static_cast<void>(memory::unmap(at, body.size));
  static_cast<void>(memory::release(body.handle));
  static_cast<void>(memory::free_range(at, body.size));
  pool.usage.reserved -= body.size;
  pool.segments.erase(segment);
}

void trim_locked(Pool& pool, std::size_t keep) {
  for (auto next = pool.segments.begin(); next != pool.segments.end() && pool.usage.reserved > keep;) {
    const auto segment = next++;
    if (segment->second.unused()) give_back(pool, segment);
  }
}

Status add_segment(Pool& pool, int device, std::size_t size) {
  memory::Handle handle = 0;
  Address at = 0;
  Status status = memory::create(size, device, 0, handle);
  if (status != Status::success) return status;
  status = memory::reserve(size, granularity, at);
  if (status == Status::success) {
    status = memory::map(at, size, 0, handle);
    if (status == Status::success) status = memory::set_access(at, size, device, true);
    for (const int peer : pool.peers)
      if (status == Status::success) status = memory::set_access(at, size, peer, true);
    if (status != Status::success) {
      static_cast<void>(memory::unmap(at, size));
      static_cast<void>(memory::free_range(at, size));
    }
  }
  if (status != Status::success) {
    static_cast<void>(memory::release(handle));
    return status;
  }
  Segment segment{size, handle, {}};
  segment.pieces[at].size = size;
  pool.segments.emplace(at, std::move(segment));
  pool.usage.reserved += size;
  pool.usage.reserved_peak = std::max(pool.usage.reserved_peak, pool.usage.reserved);
  return Status::success;
}

bool serve(Pool& pool, std::size_t size, timeline::StreamHandle stream, Address& at) {
  Segment* best_segment = nullptr;
  std::map<Address, Piece>::iterator best;
  for (auto& [begin, segment] : pool.segments) {
    for (auto piece = segment.pieces.begin(); piece != segment.pieces.end(); ++piece) {
      if (!serves(piece->second, size, stream)) continue;
      if (best_segment != nullptr && best->second.size <= piece->second.size) continue;
      best_segment = &segment;
      best = piece;
    }
  }
  if (best_segment == nullptr) return false;
  if (best->second.size > size) {
    Piece rest = best->second;
    rest.size -= size;
    best_segment->pieces.emplace(best->first + size, rest);
    best->second.size = size;
  }
  best->second.free = false;
  timeline::follow(stream, best->second.freed);
  at = best->first;
  pool.usage.used += size;
  pool.usage.used_peak = std::max(pool.usage.used_peak, pool.usage.used);
  return true;
}

// The later of the two conditions holds for the joined piece.
void join(std::map<Address, Piece>& pieces, std::map<Address, Piece>::iterator low) {
  const auto high = std::next(low);
  if (high == pieces.end() || !low->second.free || !high->second.free) return;
  low->second.size += high->second.size;
  low->second.ready = std::max(low->second.ready, high->second.ready);
  low->second.freed.merge(high->second.freed);
  if (low->second.stream != high->second.stream && low->second.ready > now())
    low->second.stream = reinterpret_cast<timeline::StreamHandle>(~std::uintptr_t{0});  // nobody's before then
  pieces.erase(high);
}

}  // namespace

Status allocate(int device, std::size_t size, timeline::StreamHandle stream, Address& at) {
  if (size == 0) return Status::invalid_value;
  const std::size_t rounded = (size + unit - 1) / unit * unit;
  if (rounded < size || size > configuration().memory) return Status::out_of_memory;
  std::lock_guard guard(lock);
  Pool& pool = pools[device];
  if (serve(pool, rounded, stream, at)) return Status::success;
  const std::size_t least = (rounded + granularity - 1) / granularity * granularity;
  Status status = add_segment(pool, device, std::max(segment_size, least));
  if (status == Status::out_of_memory) {
    trim_locked(pool, 0);
    status = add_segment(pool, device, least);
  }
  if (status != Status::success) return status;
  return serve(pool, rounded, stream, at) ? Status::success : Status::out_of_memory;
}

Status free(Address at, timeline::StreamHandle stream) {
  const Nanoseconds ready = timeline::finishes(stream);
  const Ordering known = timeline::known(stream);
  std::lock_guard guard(lock);
  for (Pool& pool : pools) {
    auto next = pool.segments.upper_bound(at);
    if (next == pool.segments.begin()) continue;
    Segment& segment = std::prev(next)->second;
    const auto piece = segment.pieces.find(at);
    if (piece == segment.pieces.end() || piece->second.free) continue;
    pool.usage.used -= piece->second.size;
    piece->second = {piece->second.size, true, stream, ready, known};
    join(segment.pieces, piece);
    if (piece != segment.pieces.begin()) join(segment.pieces, std::prev(piece));
    return Status::success;
  }
  return Status::not_found;
}

void trim(int device, std::size_t keep) {
  std::lock_guard guard(lock);
  trim_locked(pools[device], keep);
}

Status set_access(int device, int peer, bool granted) {
  if (device == peer) return granted ? Status::success : Status::invalid_value;
  if (const Status refused = peers::connect(device, peer); refused != Status::success) return refused;
  std::lock_guard guard(lock);
  if (granted)
    pools[device].peers.insert(peer);
  else
    pools[device].peers.erase(peer);
  for (const auto& [at, segment] : pools[device].segments)
    if (const Status status = memory::set_access(at, segment.size, peer, granted); status != Status::success)
      return status;
  return Status::success;
}

Usage usage(int device) {
  std::lock_guard guard(lock);
  return pools[device].usage;
}

void reset_peaks(int device) {
  std::lock_guard guard(lock);
  Usage& usage = pools[device].usage;
  usage.reserved_peak = usage.reserved;
  usage.used_peak = usage.used;
}

}  // namespace gmlake::device::pool
