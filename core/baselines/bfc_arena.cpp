#include "baselines/bfc_arena.h"

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

constexpr std::string_view name = "bfc";
constexpr Bytes largest_region = 128 * TiB;  // regions come and go for ever: what they double to must not overflow

Bytes region_size(const BfcPart* first) {
  Bytes size = 0;
  for (const BfcPart* part = first; part != nullptr; part = part->next) size += part->size;
  return size;
}

}  // namespace

BfcArena::BfcArena(Driver& driver, PoolId pool, Stream stream, Bytes first_region, Bytes max_waste)
    : driver_(driver),
      pool_(pool),
      stream_(stream),
      max_waste_(max_waste),
      next_region_(round_up(first_region, step)) {}

BfcArena::~BfcArena() {
  for (const auto& [address, first] : regions_) {
    (void)driver_.free(address);
    for (BfcPart* part = first; part != nullptr;) {
      BfcPart* next = part->next;
      delete part;
      part = next;
    }
  }
}

std::size_t BfcArena::bin_of(Bytes size) {
  const auto power = static_cast<std::size_t>(std::bit_width(std::max(size, step)) - std::bit_width(step));
  return std::min(power, bin_count - 1);
}

void BfcArena::insert(BfcPart* part) {
  bins_[bin_of(part->size)].insert(part);
  if (part->alone()) return;
  ++stuck_.parts;
  stuck_.bytes += signed_bytes(part->size);
}

void BfcArena::remove(BfcPart* part) {
  bins_[bin_of(part->size)].erase(part);
  if (part->alone()) return;
  --stuck_.parts;
  stuck_.bytes -= signed_bytes(part->size);
}

BfcPart* BfcArena::take(Bytes size) {
  BfcPart key{.size = size, .used_on = {}};
  BfcPart* part = nullptr;
  for (std::size_t bin = bin_of(size); bin < bin_count && part == nullptr; ++bin)
    if (const auto fit = bins_[bin].lower_bound(&key); fit != bins_[bin].end()) part = *fit;
  if (part == nullptr) return nullptr;
  remove(part);
  if (part->size >= 2 * size || part->size - size >= max_waste_) {
    auto* rest = new BfcPart{.address = part->address + size,
                             .size = part->size - size,
                             .arena = this,
                             .prev = part,
                             .next = part->next,
                             .used_on = {}};
    if (rest->next != nullptr) rest->next->prev = rest;
    part->next = rest;
    part->size = size;
    insert(rest);
  }
  return part;
}

void BfcArena::put(BfcPart* part) {
  if (part->next != nullptr && part->next->free()) {
    remove(part->next);
    join_next(part);
  }
  if (part->prev != nullptr && part->prev->free()) {
    part = part->prev;
    remove(part);
    join_next(part);
  }
  insert(part);
}

void BfcArena::join_next(BfcPart* part) {
  BfcPart* gone = part->next;
  part->size += gone->size;
  part->next = gone->next;
  if (part->next != nullptr) part->next->prev = part;
  delete gone;
}

Bytes BfcArena::extend(Bytes size, Bytes available) {
  available = round_down(available, step);
  if (size > available) return 0;
  bool increased = false;
  for (; size > next_region_; next_region_ *= 2) increased = true;
  Bytes bytes = std::min(next_region_, available);
  Address address = 0;
  Status status = driver_.allocate(bytes, address);
  while (status == Status::out_of_memory) {
    bytes = std::min(round_up(bytes / 10 * 9, step), bytes - step);
    if (bytes < size) return 0;
    status = driver_.allocate(bytes, address);
  }
  expect_success(status, "allocate");
  if (!increased && next_region_ < largest_region) next_region_ *= 2;
  auto* part = new BfcPart{.address = address, .size = bytes, .arena = this, .used_on = {}};
  regions_.emplace(address, part);
  insert(part);
  return bytes;
}

Bytes BfcArena::free_regions() const {
  Bytes total = 0;
  for (const auto& [address, first] : regions_)
    if (first->free() && first->alone()) total += first->size;
  return total;
}

void BfcArena::release_regions(const std::function<void(Bytes)>& released) {
  for (auto next = regions_.begin(); next != regions_.end();) {
    const auto region = next++;
    BfcPart* part = region->second;
    if (!part->free() || !part->alone()) continue;
    expect_success(driver_.free(region->first), "free");
    released(part->size);
    remove(part);
    regions_.erase(region);
    delete part;
  }
}

std::vector<SegmentInfo> BfcArena::segments() const {
  using State = BlockInfo::State;
  std::vector<SegmentInfo> result;
  for (const auto& [address, first] : regions_) {
    SegmentInfo info{.address = address, .size = region_size(first), .stream = stream_, .pool = pool_, .blocks = {}};
    for (const BfcPart* part = first; part != nullptr; part = part->next) {
      const State state = part->allocated ? State::active_allocated
                          : part->free()  ? State::inactive
                                          : State::active_pending_free;
      info.blocks.push_back({part->address, part->size, part->requested, state});
    }
    result.push_back(std::move(info));
  }
  return result;
}

void BfcArena::check() const {
  std::size_t free = 0, binned = 0;
  for (const auto& [address, first] : regions_) {
    Address next = address;
    const BfcPart* prev = nullptr;
    for (const BfcPart* part = first; part != nullptr; prev = part, part = part->next) {
      expect(part->address == next && part->size > 0 && part->prev == prev && part->arena == this, name,
             "that parts fill their region");
      expect(prev == nullptr || !prev->free() || !part->free(), name, "that free neighbours are joined");
      next += part->size;
      if (!part->free()) continue;
      ++free;
      expect(bins_[bin_of(part->size)].contains(const_cast<BfcPart*>(part)), name, "that a free part is in its bin");
    }
  }
  for (const Bin& bin : bins_) binned += bin.size();
  expect(free == binned, name, "that bins hold free parts and nothing else");
}

}  // namespace gmlake
