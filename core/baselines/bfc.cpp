#include "baselines/bfc.h"

#include <algorithm>

#include "base/error.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

using Kind = OptionRow::Kind;

constexpr OptionRow rows[] = {
    {"allow_growth", Kind::boolean, "true", "regions double from 2 MiB on; false takes the whole limit at once"},
    {"memory_limit", Kind::bytes, "0", "reserve at most this; 0 is what the device has"},
    {"fragmentation_fraction", Kind::real, "0", "of the limit that a block may waste before it is split; 0 is 128 MiB"},
    {"garbage_collection", Kind::boolean, "true", "give unused regions back before giving up"},
};

constexpr Bytes first_region = 2 * MiB;
constexpr Bytes usual_waste = 128 * MiB;
constexpr PoolKind kind = PoolKind::large;  // TensorFlow has no pool for small requests

}  // namespace

BfcOptions::BfcOptions(const Options& options)
    : allow_growth(options.boolean("allow_growth")),
      memory_limit(options.bytes("memory_limit")),
      fragmentation_fraction(options.real("fragmentation_fraction")),
      garbage_collection(options.boolean("garbage_collection")) {
  if (fragmentation_fraction < 0 || fragmentation_fraction > 1)
    throw InvalidArgument("option fragmentation_fraction is " + options.text("fragmentation_fraction") +
                          "; it must be from 0 to 1");
}

BfcAllocator::BfcAllocator(Driver& driver, const BfcOptions& options)
    : driver_(driver), options_(options), pending_(driver) {
  const bool bounded = available() <= TiB * 1024;
  if (!bounded && (!options.allow_growth || options.fragmentation_fraction > 0))
    throw InvalidArgument(
        "bfc without allow_growth, or with fragmentation_fraction, needs to know how much memory there is; "
        "give it a memory_limit or the device a capacity");
}

Address BfcAllocator::allocate(Bytes size, Stream stream) {
  if (size == 0) return 0;
  check_size(size);
  std::lock_guard lock(mutex_);
  const bool captured = capturing(stream);
  if (!captured) pending_.poll([this](BfcPart* part) { settle(part); });
  BfcPart* part = acquire(arena_for(stream), round_up(size, BfcArena::step), captured);
  if (part == nullptr) {
    ++statistics_.num_ooms;
    throw_out_of_memory(driver_, size, stream, statistics_, limit_, 0);
  }
  part->allocated = true;
  part->requested = size;
  allocated_.emplace(part->address, part);
  for (StatArray* stat : {&statistics_.allocation, &statistics_.active}) stat->increase(kind, 1);
  for (StatArray* stat : {&statistics_.allocated_bytes, &statistics_.active_bytes})
    stat->increase(kind, signed_bytes(part->size));
  statistics_.requested_bytes.increase(kind, signed_bytes(size));
  return part->address;
}

BfcPart* BfcAllocator::acquire(BfcArena& arena, Bytes size, bool capturing) {
  if (BfcPart* part = take(arena, size)) return part;
  if (extend(arena, size)) return take(arena, size);
  if (capturing) return nullptr;
  const Bytes gained = arena.free_regions();
  if (options_.garbage_collection && gained > 0 && size <= available() + gained) {
    release_regions(arena);
    if (extend(arena, size)) return take(arena, size);
  }
  ++statistics_.num_alloc_retries;
  release_all();
  if (BfcPart* part = take(arena, size)) return part;
  return extend(arena, size) ? take(arena, size) : nullptr;
}

BfcPart* BfcAllocator::take(BfcArena& arena, Bytes size) {
  const BfcArena::Stuck before = arena.stuck();
  BfcPart* part = arena.take(size);
  statistics_.inactive_split.change(kind, arena.stuck().parts - before.parts);
  statistics_.inactive_split_bytes.change(kind, arena.stuck().bytes - before.bytes);
  return part;
}

bool BfcAllocator::extend(BfcArena& arena, Bytes size) {
  const Bytes gained = arena.extend(size, available());
  if (gained == 0) return false;
  ++statistics_.num_device_alloc;
  statistics_.segment.increase(kind, 1);
  statistics_.reserved_bytes.increase(kind, signed_bytes(gained));
  return true;
}

Bytes BfcAllocator::available() const {
  Bytes free = 0, total = 0;
  expect_success(driver_.memory_info(free, total), "memory_info");
  Bytes limit = limit_ ? std::min(*limit_, total) : total;
  if (options_.memory_limit != 0) limit = std::min(limit, options_.memory_limit);
  const auto reserved = static_cast<Bytes>(statistics_.reserved_bytes.all().current);
  return limit > reserved ? limit - reserved : 0;
}

void BfcAllocator::release_regions(BfcArena& arena) {
  arena.release_regions([this](Bytes size) {
    ++statistics_.num_device_free;
    statistics_.segment.decrease(kind, 1);
    statistics_.reserved_bytes.decrease(kind, signed_bytes(size));
  });
}

void BfcAllocator::release_all() {
  ++statistics_.num_sync_all_streams;
  pending_.wait([this](BfcPart* part) { settle(part); });
  for (auto& [key, arena] : arenas_)
    if (!key.first || scopes_.released(key.first)) release_regions(arena);
}

void BfcAllocator::release(Address address) {
  if (address == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) throw_unknown_address(address);
  BfcPart* part = found->second;
  const bool waits = !part->used_on.empty();
  if (waits) pending_.defer(part, capturing(part->arena->stream()));
  allocated_.erase(found);
  part->allocated = false;
  statistics_.allocation.decrease(kind, 1);
  statistics_.allocated_bytes.decrease(kind, signed_bytes(part->size));
  if (!waits) settle(part);
}

void BfcAllocator::settle(BfcPart* part) {
  statistics_.active.decrease(kind, 1);
  statistics_.active_bytes.decrease(kind, signed_bytes(part->size));
  statistics_.requested_bytes.decrease(kind, signed_bytes(part->requested));
  BfcArena& arena = *part->arena;
  const BfcArena::Stuck before = arena.stuck();
  arena.put(part);
  statistics_.inactive_split.change(kind, arena.stuck().parts - before.parts);
  statistics_.inactive_split_bytes.change(kind, arena.stuck().bytes - before.bytes);
}

void BfcAllocator::record_stream(Address address, Stream stream) {
  if (address == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) throw_unknown_address(address);
  std::vector<Stream>& used_on = found->second->used_on;
  if (stream != found->second->arena->stream() && std::ranges::find(used_on, stream) == used_on.end())
    used_on.push_back(stream);
}

BfcArena& BfcAllocator::arena_for(Stream stream) {
  const std::pair key{scopes_.match(stream), stream};
  const auto found = arenas_.find(key);
  if (found != arenas_.end()) return found->second;
  const Bytes limit = available() + static_cast<Bytes>(statistics_.reserved_bytes.all().current);
  const Bytes region = options_.allow_growth ? std::min(limit, first_region) : limit;
  const double fraction = options_.fragmentation_fraction;
  const Bytes waste = fraction > 0 ? static_cast<Bytes>(fraction * static_cast<double>(limit)) : usual_waste;
  return arenas_.try_emplace(key, driver_, key.first, stream, std::max(region, BfcArena::step), waste).first->second;
}

bool BfcAllocator::capturing(Stream stream) const {
  bool captured = false;
  if (scopes_.open()) expect_success(driver_.is_capturing(stream, captured), "is_capturing");
  return captured;
}

void BfcAllocator::begin_pool(PoolId pool, StreamFilter filter) {
  std::lock_guard lock(mutex_);
  scopes_.begin(pool, std::move(filter));
}

void BfcAllocator::end_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.end(pool);
}

void BfcAllocator::release_pool(PoolId pool) {
  std::lock_guard lock(mutex_);
  scopes_.release(pool);
}

void BfcAllocator::trim() {
  std::lock_guard lock(mutex_);
  const auto captured = [this](const auto& entry) { return capturing(entry.first.second); };
  if (std::ranges::any_of(arenas_, captured)) return;
  release_all();
  pending_.drop_spares();
  std::erase_if(arenas_, [](const auto& entry) { return entry.first.first && entry.second.regions() == 0; });
}

void BfcAllocator::set_limit(Bytes reserved) {
  std::lock_guard lock(mutex_);
  limit_ = reserved;
}

Statistics BfcAllocator::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

void BfcAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  statistics_.reset_peaks();
}

void BfcAllocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  statistics_.reset_accumulated();
}

std::vector<SegmentInfo> BfcAllocator::segments() const {
  std::lock_guard lock(mutex_);
  std::vector<SegmentInfo> result;
  for (const auto& [key, arena] : arenas_) {
    std::vector<SegmentInfo> more = arena.segments();
    result.insert(result.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  std::ranges::sort(result, {}, &SegmentInfo::address);
  return result;
}

void BfcAllocator::check() const {
  std::lock_guard lock(mutex_);
  Statistics counted;
  for (const auto& [key, arena] : arenas_) {
    arena.check();
    counted.segment.increase(kind, static_cast<std::int64_t>(arena.regions()));
    arena.visit([&](const BfcPart& part) {
      const auto size = signed_bytes(part.size);
      counted.reserved_bytes.increase(kind, size);
      if (part.free()) {
        if (part.alone()) return;
        counted.inactive_split.increase(kind, 1);
        counted.inactive_split_bytes.increase(kind, size);
        return;
      }
      counted.active.increase(kind, 1);
      counted.active_bytes.increase(kind, size);
      counted.requested_bytes.increase(kind, signed_bytes(part.requested));
      if (!part.allocated) return;
      const auto found = allocated_.find(part.address);
      expect(found != allocated_.end() && found->second == &part, "bfc", "that an allocated part can be released");
      counted.allocation.increase(kind, 1);
      counted.allocated_bytes.increase(kind, size);
    });
  }
  expect(static_cast<std::size_t>(counted.allocation.all().current) == allocated_.size(), "bfc",
         "that the allocated parts are those in the client's hands");
  expect_same(counted, statistics_, "bfc");
}

std::span<const OptionRow> bfc_option_rows() {
  return rows;
}

std::unique_ptr<Allocator> make_bfc(Driver& driver, const Options& options) {
  return std::make_unique<BfcAllocator>(driver, BfcOptions(options));
}

}  // namespace gmlake
