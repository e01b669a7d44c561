// Pools of our allocator: how they are made, which of them serves a request, who uses the private ones, and checkpoints
// of what is in them.
#include <algorithm>
#include <string>

#include "allocator/gmlake.h"
#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

// Addresses for one pool: plenty for the largest device, little beside the 128 TiB that there are. Of private pools
// there may be thousands: the first ones get plenty, every generation of them half as much as the one before.
constexpr Bytes shared_lake = 4 * TiB;
constexpr Bytes shared_slabs = 256 * GiB;
constexpr Bytes private_lake = 512 * GiB;
constexpr Bytes private_slabs = 16 * GiB;
constexpr std::size_t generation = 64;
constexpr std::size_t most_halvings = 6;

}  // namespace

// The lake comes first, from the first page on that begins at a multiple of its size; the slabs get what is left.
GMLakeAllocator::Pool::Pool(Supply& supply, PoolId the_id, Address range, Bytes size, Bytes lake_size)
    : id(the_id),
      addresses{supply.ranges, range, size},
      lake(supply, the_id, round_up(range, page_size), lake_size),
      slabs(supply, lake, the_id, lake.arena().range() + lake_size,
            round_down(range + size - lake.arena().range() - lake_size, page_size)),
      small(supply, slabs) {}

std::unique_ptr<GMLakeAllocator::Pool> GMLakeAllocator::make_pool(PoolId id) {
  const std::size_t generations = id ? private_.size() / generation : 0;
  // Where addresses are scarce, by a limit of the process or a sanitizer, a pool makes do with fewer.
  for (std::size_t halved = std::min(generations, most_halvings); halved <= most_halvings; ++halved) {
    const Bytes lake = (id ? private_lake : shared_lake) >> halved;
    const Bytes slabs = (id ? private_slabs : shared_slabs) >> halved;
    const Address range = supply_.ranges.reserve(lake + slabs);
    if (range != 0) return std::make_unique<Pool>(supply_, id, range, lake + slabs, lake);
  }
  return nullptr;
}

GMLakeAllocator::Pool& GMLakeAllocator::route_by_scope(Stream stream) {
  (void)supply_.fences.lane(stream);  // from here on it is looked at for a capture
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (!scope->filter(stream)) continue;
    if (!scope->met) {
      scope->met = true;
      watch_captures();
    }
    return *private_.at(scope->id);
  }
  return *ordinary_;
}

void GMLakeAllocator::watch_captures() {
  supply_.fences.watch_captures(!scopes_.empty(),
                                std::ranges::any_of(scopes_, [](const Scope& scope) { return !scope.met; }));
}

void GMLakeAllocator::begin_pool(PoolId id, StreamFilter filter) {
  const Guard guard(lock_);
  if (std::ranges::find(scopes_, id, &Scope::id) != scopes_.end())
    throw InvalidArgument("pool " + written(id) + " was begun already; end it first");
  ++private_pool(id).uses;
  scopes_.push_back({id, std::move(filter)});
  watch_captures();
}

void GMLakeAllocator::end_pool(PoolId id) {
  const Guard guard(lock_);
  auto scope = std::ranges::find(scopes_.rbegin(), scopes_.rend(), id, &Scope::id);
  if (scope == scopes_.rend()) throw InvalidArgument("pool " + written(id) + " was not begun");
  scopes_.erase(std::next(scope).base());
  watch_captures();
}

void GMLakeAllocator::release_pool(PoolId id) {
  const Guard guard(lock_);
  Pool& pool = known_pool(id);
  if (pool.uses == 0) throw InvalidArgument("pool " + written(id) + " is not in use");
  --pool.uses;
}

void GMLakeAllocator::retain_pool(PoolId id) {
  const Guard guard(lock_);
  ++private_pool(id).uses;
}

int GMLakeAllocator::pool_uses(PoolId id) const {
  const Guard guard(lock_);
  const auto found = private_.find(id);
  return found == private_.end() ? 0 : found->second->uses;
}

void GMLakeAllocator::trim_pool(PoolId id) {
  const Guard guard(lock_);
  if (supply_.fences.capturing()) return;
  (void)settle_limbo(true);
  release_unused_pools(id);
}

void GMLakeAllocator::share_pool(PoolId id, bool on) {
  const Guard guard(lock_);
  if (on || private_.contains(id)) known_pool(id).shared = on;
}

GMLakeAllocator::Pool& GMLakeAllocator::private_pool(PoolId id) {
  if (!id) throw InvalidArgument("pool (0, 0) is the ordinary pool; a private pool needs another id");
  auto found = private_.find(id);
  if (found == private_.end()) {
    if (private_.size() >= generation && !supply_.fences.capturing()) {  // rather than with fewer addresses
      (void)settle_limbo(false);
      release_unused_pools();
    }
    auto pool = make_pool(id);
    if (pool == nullptr) throw OutOfMemory("the driver refused to reserve addresses for a private pool");
    found = private_.emplace(id, std::move(pool)).first;
  }
  return *found->second;
}

GMLakeAllocator::Pool& GMLakeAllocator::known_pool(PoolId id) const {
  const auto found = private_.find(id);
  if (found == private_.end()) throw InvalidArgument("pool " + written(id) + " is not in use");
  return *found->second;
}

// ---- checkpoints

std::vector<LiveBlock> GMLakeAllocator::Pool::live(const Fences& fences) const {
  std::vector<LiveBlock> result;
  for (Extent* extent = lake.arena().first(); extent != nullptr; extent = extent->next) {
    const bool begins = extent->previous == nullptr || !extent->previous->joined;
    if (extent->state == Extent::State::live && begins)
      result.push_back(
          {extent->address, Lake::size({extent, nullptr}), extent->requested, fences.stream(extent->user)});
  }
  small.each_slab([&](const SmallPool::Slab& slab) {
    for (std::size_t place = 0; place < slab.units; place += slab.blocks[place].size) {
      const SmallPool::Block& block = slab.blocks[place];
      if (block.live && !block.limbo)
        result.push_back({block.address(), block.bytes(), block.use.requested, slab.shelf->stream});
    }
  });
  return result;
}

std::vector<LiveBlock> GMLakeAllocator::live_blocks(PoolId id) const {
  const Guard guard(lock_);
  return known_pool(id).live(supply_.fences);
}

// Nothing in a private pool moves or is given back while it has uses: what was once in use at an address can be again.
std::vector<LiveBlock> GMLakeAllocator::restore_pool(PoolId id, std::span<const LiveBlock> blocks) {
  const Guard guard(lock_);
  Pool& pool = known_pool(id);
  if (supply_.fences.capturing()) throw InvalidArgument("no checkpoint can be restored while a stream captures");
  std::vector<LiveBlock> released = pool.live(supply_.fences);
  std::vector<LaneSet> used_on;
  LaneSet lanes = 0;
  for (const LiveBlock& block : released) lanes |= used_on.emplace_back(others(look_up(block.address)));
  Fences& fences = supply_.fences;
  Fences::Ticket ticket;
  // A page of small blocks may go back to a stream from another one, whose work on it may be under way.
  auto mark = [&] {
    return pool.small.one_stream() ? fences.mark(lanes, fences.now(0).last(), ticket) : fences.mark_everything(ticket);
  };
  if (!settle_limbo(true) || !mark() || !fences.synchronize(ticket))
    throw DriverError("the checkpoint of pool " + written(id) +
                      " cannot be restored: the driver refused to wait for the streams that use its memory");
  empty_pool(pool, released);
  if (!fill_pool(pool, blocks)) {
    empty_pool(pool, pool.live(supply_.fences));
    (void)fill_pool(pool, released);
    for (std::size_t i = 0; i < released.size(); ++i) others(look_up(released[i].address)) = used_on[i];
    throw InvalidArgument("the checkpoint of pool " + written(id) +
                          " cannot be restored: another stream still uses its memory, or it was given back");
  }
  return released;
}

// Whatever other streams did with the blocks has finished.
void GMLakeAllocator::empty_pool(Pool& pool, std::span<const LiveBlock> blocks) {
  for (const LiveBlock& block : blocks) {
    others(look_up(block.address)) = 0;
    release_any(block.address);
  }
  pool.small.trim();  // a page may go to another stream
}

bool GMLakeAllocator::fill_pool(Pool& pool, std::span<const LiveBlock> blocks) {
  for (const LiveBlock& block : blocks) {
    const bool small = pool.slabs.contains(block.address);
    if (!(small ? pool.small.allocate_at(block.address, block.size, block.requested, block.stream)
                : pool.lake.allocate_at(block.address, block.size, block.requested, block.stream)))
      return false;
    supply_.tally.allocate(small ? PoolKind::small : PoolKind::large, block.size, block.requested);
    supply_.journal.note(JournalEntry::Action::alloc, block.address, block.requested, block.stream, pool.id);
  }
  return true;
}

}  // namespace gmlake
