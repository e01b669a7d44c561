// What our allocator does when a request finds no room: the ladder, and giving memory back.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "allocator/gmlake.h"
#include "base/error.h"
#include "base/units.h"

namespace gmlake {

// Gives free memory back, of large blocks no more than enough. Slabs are unmapped only if the lake could wait for the
// work that may still use them.
void GMLakeAllocator::Pool::trim(Bytes enough) {
  small.trim();
  if (lake.trim(enough)) slabs.trim();
}

// The ladder. Each rung may free memory, and each is followed by another search.
Address GMLakeAllocator::climb(Pool& pool, Bytes rounded, Bytes size, Stream stream) {
  ++supply_.statistics.num_alloc_retries;
  supply_.chunks.retry();
  supply_.ranges.retry();
  supply_.look_again();
  if (supply_.fences.capturing()) {  // nothing may be waited for
    if (Address at = try_allocate(pool, rounded, size, stream); at != 0) return at;
    if (Address at = pool.id ? 0 : try_shared_pools(rounded, size, stream); at != 0) return at;
    out_of_memory(size, stream);
  }
  release_unused_pools();
  (void)settle_limbo(false);
  if (Address at = try_allocate(pool, rounded, size, stream); at != 0) return at;

  // Wait for everything that is outstanding: blocks in limbo, old addresses.
  ++supply_.statistics.num_sync_all_streams;
  (void)settle_limbo(true);
  release_unused_pools();  // whose last block was in limbo
  (void)ordinary_->lake.settle(true);
  if (Address at = try_allocate(pool, rounded, size, stream); at != 0) return at;

  // Spare slabs are no use to a large block, nor free chunks of the shared lake to a slab or a private pool: give
  // enough of them back to create others. Slabs first, because chunks are mapped by sBlocks that would have to go.
  if (supply_.fences.drain()) {
    ordinary_->small.trim();
    ordinary_->slabs.trim();
    if (Address at = try_allocate(pool, rounded, size, stream); at != 0) return at;
  }
  // A part of what is asked may do: chunks that can move need new ones only where none of them fits.
  const Bytes enough = round_up(rounded, page_size) + supply_.excess();
  for (const Bytes part : {enough / 64, enough / 8, enough}) {
    ordinary_->trim(part);
    if (Address at = try_allocate(pool, rounded, size, stream); at != 0) return at;
  }
  if (Address at = pool.id ? 0 : try_shared_pools(rounded, size, stream); at != 0) return at;
  out_of_memory(size, stream);
}

Address GMLakeAllocator::try_shared_pools(Bytes rounded, Bytes size, Stream stream) {
  for (const auto& [id, pool] : private_)
    if (Address at = pool->shared ? try_allocate(*pool, rounded, size, stream) : 0; at != 0) return at;
  return 0;
}

void GMLakeAllocator::out_of_memory(Bytes size, Stream stream) {
  Bytes free = 0;
  Bytes total = 0;
  if (const Status status = supply_.driver.memory_info(free, total); status != Status::success)
    throw DriverError("device " + std::to_string(supply_.driver.device()) + " does not even say what memory it has (" +
                      std::string(to_string(status)) +
                      "): an earlier error has made it unusable; CUDA_LAUNCH_BLOCKING=1 shows where that was");
  supply_.statistics.count_out_of_memory(size);
  supply_.journal.note(JournalEntry::Action::oom, free, size, stream);
  const Bytes reserved = supply_.chunks.reserved();
  std::string text = "out of memory on device " + std::to_string(supply_.driver.device()) + ": " + format_bytes(size) +
                     " asked, " + format_bytes(supply_.tally.active()) + " active, " + format_bytes(reserved) +
                     " reserved, " + format_bytes(free) + " of " + format_bytes(total) + " free on the device";
  if (supply_.limit < total) text += ", limited to " + format_bytes(supply_.limit);
  const Bytes wanted = supply_.tally.active() + round_up(size, unit);
  const Bytes missing = wanted - std::min(wanted, reserved + supply_.room());
  if (missing > 0)
    text += "; the request exceeds what is there by " + format_bytes(missing);
  else if (reserved - supply_.chunks.doomed_bytes() > supply_.tally.active())
    text += "; what is free lies in chunks that are partly in use, a smaller chunk_limit may help";
  throw OutOfMemory(text);
}

// A pool that no graph uses any more and whose blocks are all released gives its memory back, and goes once the driver
// has taken all of it.
void GMLakeAllocator::release_unused_pools(PoolId only) {
  for (auto entry = private_.begin(); entry != private_.end();) {
    Pool& pool = *entry->second;
    const bool unused = (!only || entry->first == only) && pool.uses == 0 && pool.empty() &&
                        std::ranges::none_of(scopes_, [&](const Scope& scope) { return scope.id == pool.id; });
    if (unused) pool.trim(std::numeric_limits<Bytes>::max());
    entry = unused && pool.vacant() ? private_.erase(entry) : std::next(entry);
  }
}

void GMLakeAllocator::give_back_everything() {
  (void)settle_limbo(true);
  supply_.chunks.retry();
  release_unused_pools();
  ordinary_->trim(std::numeric_limits<Bytes>::max());
  supply_.chunks.retry();
  supply_.ranges.retry();
}

}  // namespace gmlake
