#include "allocator/gmlake.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

constexpr std::array<OptionRow, 4> rows{{
    {"target", OptionRow::Kind::real, "0.9824",
     "grow freely while peak active / reserved stays above this; below it, stitch"},
    {"chunk_limit", OptionRow::Kind::bytes, "22MiB", "the largest chunk; small devices use smaller ones"},
    {"small_limit", OptionRow::Kind::bytes, "1MiB", "requests up to this size share slabs of 2 MiB"},
    {"address_budget", OptionRow::Kind::real, "12",
     "sBlocks may map this many times the reserved bytes before the least recently used go"},
}};

}  // namespace

std::span<const OptionRow> GMLakeAllocator::option_rows() {
  return rows;
}

std::unique_ptr<Allocator> GMLakeAllocator::make(Driver& driver, const Options& options) {
  const Policy policy{.target = options.real("target"),
                      .chunk_limit = options.bytes("chunk_limit"),
                      .small_limit = options.bytes("small_limit"),
                      .address_budget = options.real("address_budget")};
  if (policy.target <= 0 || policy.target > 1)
    throw InvalidArgument("option target must be above 0 and at most 1, not " + options.text("target"));
  if (policy.chunk_limit < 2 * MiB || policy.chunk_limit % (2 * MiB) != 0)
    throw InvalidArgument("option chunk_limit must be a multiple of 2MiB, not " + options.text("chunk_limit"));
  if (policy.small_limit > 1 * MiB || policy.small_limit < unit)
    throw InvalidArgument("option small_limit must be from 512B to 1MiB, not " + options.text("small_limit"));
  if (policy.address_budget < 0)
    throw InvalidArgument("option address_budget must not be negative, not " + options.text("address_budget"));
  return std::make_unique<GMLakeAllocator>(driver, policy);
}

GMLakeAllocator::GMLakeAllocator(Driver& driver, const Policy& policy) : supply_(driver, policy) {
  if (page_size % driver.granularity() != 0)
    throw DriverError("device " + std::to_string(driver.device()) + " maps memory in steps of " +
                      format_bytes(driver.granularity()) + "; GMLake needs a divisor of 2 MiB");
  ordinary_ = make_pool({});
  if (ordinary_ == nullptr) throw DriverError("the driver refused to reserve addresses");
}

GMLakeAllocator::~GMLakeAllocator() {
  (void)settle_limbo(true);
  (void)supply_.fences.drain();
}

// ---- steps of the hot path

inline GMLakeAllocator::Block GMLakeAllocator::Pool::find(Address address) {
  if (slabs.contains(address)) return {this, small.find(address), {}};
  return {this, nullptr, lake.find(address)};
}

inline GMLakeAllocator::Block GMLakeAllocator::find(Address address) const {
  Block block = ordinary_->find(address);
  if (!block) [[unlikely]]
    block = find_private(address);
  return block;
}

inline GMLakeAllocator::Use GMLakeAllocator::use(const Block& block) {
  if (block.small != nullptr)
    return {.kind = PoolKind::small,
            .bytes = block.small->bytes(),
            .requested = block.small->use.requested,
            .lane = block.pool->small.lane(block.small),
            .others = block.small->use.lanes};
  const Bytes bytes = Lake::size(block.large);
  if (const Extent* extent = block.large.extent; extent != nullptr) [[likely]]
    return {PoolKind::large, bytes, extent->requested, extent->user, extent->uses};
  const SBlock* stitched = block.large.stitched;
  return {PoolKind::large, bytes, stitched->requested, stitched->user, stitched->uses};
}

inline void GMLakeAllocator::note(JournalEntry::Action action, const Block& block, const Use& use) {
  if (!supply_.journal.on()) [[likely]]
    return;
  const Address address = block.small != nullptr          ? block.small->address()
                          : block.large.extent != nullptr ? block.large.extent->address
                                                          : block.large.stitched->address;
  const Stream stream =
      block.small != nullptr ? block.pool->small.stream(block.small) : supply_.fences.stream(use.lane);
  supply_.journal.note(action, address, use.requested, stream, block.pool->id);
}

inline void GMLakeAllocator::free(const Block& block, const Clock& clock, const Use& use) {
  note(JournalEntry::Action::free_completed, block, use);
  if (block.small != nullptr)
    block.pool->small.free(block.small);
  else
    block.pool->lake.free(block.large, use.bytes, clock);
}

// ---- the five calls of a client

Address GMLakeAllocator::allocate(Bytes size, Stream stream) {
  if (size == 0) return 0;
  if (size > largest_request) [[unlikely]]
    refuse(size);
  const Guard guard(lock_);
  Pool& pool = route(stream);
  if (!limbo_.empty()) (void)settle_limbo(false);
  const Bytes rounded = round_up(size, unit);
  const bool small = rounded <= supply_.policy.small_limit;
  Address address = small ? pool.small.allocate(rounded, size, stream) : pool.lake.allocate(rounded, size, stream);
  if (address == 0) [[unlikely]]
    address = climb(pool, rounded, size, stream);
  if (small)
    supply_.tally.allocate(PoolKind::small, rounded, size);
  else
    supply_.tally.allocate(PoolKind::large, rounded, size);
  if (supply_.journal.on()) [[unlikely]]  // another pool may have served it: one that is shared
    supply_.journal.note(JournalEntry::Action::alloc, address, size, stream, find(address).pool->id);
  return address;
}

void GMLakeAllocator::release(Address address) {
  if (address == 0) return;
  const Guard guard(lock_);
  Pool& pool = *ordinary_;
  if (supply_.journal.on()) [[unlikely]] {
    release_any(address);
  } else if (pool.slabs.contains(address)) {
    SmallPool::Block* block = pool.small.find(address);
    if (block == nullptr || block->use.lanes != 0) return release_any(address);
    supply_.tally.release(PoolKind::small, block->bytes(), block->use.requested);
    pool.small.free(block);
  } else {
    Extent* extent = pool.lake.find_plain(address);
    if (extent == nullptr) return release_any(address);
    supply_.tally.release(PoolKind::large, extent->size, extent->requested);
    pool.lake.free_plain(extent);
  }
}

// Whatever is not the plain case: other pools, sBlocks, blocks that several streams used, a journal to be kept.
void GMLakeAllocator::release_any(Address address) {
  const Block block = find(address);
  const Use use = this->use(block);
  supply_.tally.release(use.kind, use.bytes, use.requested);
  note(JournalEntry::Action::free_requested, block, use);
  if (use.others == 0)
    free(block, supply_.fences.now(use.lane), use);
  else
    postpone(block, use);
}

// Other streams used the block: it stays in limbo until they have passed this point.
void GMLakeAllocator::postpone(const Block& block, const Use& use) {
  supply_.tally.postpone(use.kind, use.bytes, use.requested);
  if (block.small != nullptr)
    block.small->limbo = true;
  else if (block.large.extent != nullptr)
    block.large.extent->state = Extent::State::limbo;
  else
    block.large.stitched->limbo = true;
  auto limbo = std::ranges::find(limbo_, use.others, &Limbo::lanes);
  if (limbo == limbo_.end())
    limbo = limbo_.insert(limbo, {.lanes = use.others, .waiting = {}, .ticket = {}, .later = {}});
  limbo->later.push_back({block, supply_.fences.now(use.lane)});
}

void GMLakeAllocator::record_stream(Address address, Stream stream) {
  if (address == 0) return;
  const Guard guard(lock_);
  const Block block = find(address);
  const Lane lane = supply_.fences.lane(stream);
  // The block's own stream needs no note; in the crowd another stream of the same lane does.
  const bool its_own = block.small != nullptr ? block.pool->small.stream(block.small) == stream
                                              : use(block).lane == lane && lane != crowd;
  if (!its_own) others(block) |= only(lane);
}

LaneSet& GMLakeAllocator::others(const Block& block) {
  if (block.small != nullptr) return block.small->use.lanes;
  return block.large.extent != nullptr ? block.large.extent->uses : block.large.stitched->uses;
}

void GMLakeAllocator::trim() {
  const Guard guard(lock_);
  if (supply_.fences.capturing()) return;  // nothing may be waited for while a stream captures
  supply_.journal.note(JournalEntry::Action::trim, 0, supply_.chunks.reserved(), 0);
  give_back_everything();
}

void GMLakeAllocator::set_limit(Bytes reserved) {
  const Guard guard(lock_);
  supply_.limit = reserved;
}

// ---- inside

Address GMLakeAllocator::try_allocate(Pool& pool, Bytes rounded, Bytes size, Stream stream) {
  return rounded <= supply_.policy.small_limit ? pool.small.allocate(rounded, size, stream)
                                               : pool.lake.allocate_again(rounded, size, stream);
}

void GMLakeAllocator::refuse(Bytes size) {
  throw InvalidArgument("cannot allocate " + std::to_string(size) + " bytes: a request is at most 128 TiB");
}

GMLakeAllocator::Block GMLakeAllocator::look_up(Address address) const {
  if (const Block block = ordinary_->find(address)) return block;
  for (const auto& [id, pool] : private_)
    if (pool->addresses.contains(address)) return pool->find(address);
  return {};
}

GMLakeAllocator::Block GMLakeAllocator::find_private(Address address) const {
  if (const Block block = look_up(address)) return block;
  throw InvalidArgument("address " + std::to_string(address) +
                        " is not in use: it was never handed out, or it was released already");
}

// Blocks that other streams used come free once those streams have passed the point of their release. One event per
// lane covers all blocks released since the last one. Nothing is asked while a stream captures.
bool GMLakeAllocator::settle_limbo(bool wait) {
  if (supply_.fences.capturing()) return false;
  std::erase_if(limbo_, [&](Limbo& limbo) { return settle(limbo, wait); });
  return limbo_.empty();
}

bool GMLakeAllocator::settle(Limbo& limbo, bool wait) {
  while (!limbo.waiting.empty() || !limbo.later.empty()) {
    if (limbo.waiting.empty()) {
      if (!supply_.fences.mark(limbo.lanes, limbo.later.back().clock.last(), limbo.ticket)) return false;
      limbo.waiting.swap(limbo.later);
    }
    if (!(wait ? supply_.fences.synchronize(limbo.ticket) : supply_.fences.passed(limbo.ticket))) return false;
    for (const Released& released : limbo.waiting) {
      if (released.block.large.extent != nullptr) released.block.large.extent->state = Extent::State::live;
      const Use use = this->use(released.block);
      supply_.tally.settle(use.kind, use.bytes, use.requested);
      free(released.block, released.clock, use);
    }
    limbo.waiting.clear();
  }
  return true;
}

Bytes GMLakeAllocator::block_size(Address address) const {
  const Guard guard(lock_);
  const Block block = look_up(address);
  return block ? use(block).bytes : 0;
}

Statistics GMLakeAllocator::statistics() const {
  const Guard guard(lock_);
  refresh_inactive();
  Statistics statistics = supply_.statistics;
  supply_.tally.show(statistics);
  statistics.fences = supply_.fences.count();
  return statistics;
}

Totals GMLakeAllocator::totals() const {
  const Guard guard(lock_);
  return {supply_.tally.allocated(), supply_.chunks.reserved()};
}

std::vector<Gauge> GMLakeAllocator::gauges() const {
  const Statistics& s = supply_.statistics;
  const Stat& reserved = s.reserved_bytes.by[0];
  return {{"allocated", supply_.tally.active_counters(), supply_.tally.lingering_counters()},
          {"active", supply_.tally.active_counters()},
          {"peak_active", {supply_.tally.peak_counter()}},
          {"reserved", {&reserved.current}},
          {"peak_reserved", {&reserved.peak}},
          {"stitches", {&s.stitches}},
          {"retries", {&s.num_alloc_retries}},
          {"ooms", {&s.num_ooms}},
          {"last_oom_us", {&s.last_oom_us}},
          {"last_oom_bytes", {&s.last_oom_bytes}}};
}

void GMLakeAllocator::start_journal(std::size_t entries) {
  const Guard guard(lock_);
  supply_.journal.start(entries);
}

void GMLakeAllocator::resize_journal(std::size_t entries) {
  const Guard guard(lock_);
  supply_.journal.resize(entries);
}

void GMLakeAllocator::annotate(Address address) {
  const Guard guard(lock_);
  if (const Block block = look_up(address)) note(JournalEntry::Action::annotate, block, use(block));
}

void GMLakeAllocator::note_snapshot() {
  const Guard guard(lock_);
  supply_.journal.note(JournalEntry::Action::snapshot, 0, supply_.tally.active(), 0);
}

std::vector<JournalEntry> GMLakeAllocator::journal() const {
  const Guard guard(lock_);
  return supply_.journal.entries();
}

void GMLakeAllocator::reset_peaks() {
  const Guard guard(lock_);
  refresh_inactive();
  supply_.tally.reset_peaks();
  supply_.statistics.reset_peaks();
}

void GMLakeAllocator::reset_accumulated() {
  const Guard guard(lock_);
  refresh_inactive();
  supply_.tally.reset_accumulated();
  supply_.statistics.reset_accumulated();
  supply_.fences.reset_count();
}

}  // namespace gmlake
