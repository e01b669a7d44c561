// TensorFlow's best-fit-with-coalescing allocator for one stream: regions from the driver, each a list of parts without
// gaps; free parts wait in 21 bins by the power of two of their size. It counts nothing and knows neither limits nor
// other streams.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "allocator/allocator.h"
#include "base/units.h"
#include "driver/driver.h"

namespace gmlake {

class BfcArena;

struct BfcPart {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  BfcArena* arena = nullptr;
  BfcPart* prev = nullptr;  // neighbours in the region
  BfcPart* next = nullptr;
  int events = 0;
  bool allocated = false;
  std::vector<Stream> used_on;

  bool free() const { return !allocated && events == 0 && used_on.empty(); }
  bool alone() const { return prev == nullptr && next == nullptr; }
};

class BfcArena {
 public:
  static constexpr Bytes step = 256;

  BfcArena(Driver& driver, PoolId pool, Stream stream, Bytes first_region, Bytes max_waste);
  BfcArena(const BfcArena&) = delete;
  BfcArena& operator=(const BfcArena&) = delete;
  ~BfcArena();  // gives every region back

  // A part for a rounded size, no longer in its bin, split if that is worth it; null if no free part is large enough.
  BfcPart* take(Bytes size);
  void put(BfcPart* part);  // joins free neighbours

  // Gets a region for a request, at most `available` bytes: the size doubles from region to region; if the driver
  // refuses, a tenth less is asked for until the request itself would not fit. Returns the bytes gained.
  Bytes extend(Bytes size, Bytes available);
  Bytes free_regions() const;  // bytes in regions without a part in use
  // Gives those back, and calls released(size) for each as it goes.
  void release_regions(const std::function<void(Bytes)>& released);

  // Free parts of regions that are in use: they cannot be given back.
  struct Stuck {
    std::int64_t parts = 0;
    std::int64_t bytes = 0;
  };
  Stuck stuck() const { return stuck_; }

  Stream stream() const { return stream_; }
  std::size_t regions() const { return regions_.size(); }
  std::vector<SegmentInfo> segments() const;
  template <typename Visit>
  void visit(Visit visit_part) const {
    for (const auto& [address, first] : regions_)
      for (const BfcPart* part = first; part != nullptr; part = part->next) visit_part(*part);
  }
  void check() const;

 private:
  static constexpr std::size_t bin_count = 21;
  struct Smaller {
    bool operator()(const BfcPart* a, const BfcPart* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };
  using Bin = std::set<BfcPart*, Smaller>;

  static std::size_t bin_of(Bytes size);
  void insert(BfcPart* part);
  void remove(BfcPart* part);
  void join_next(BfcPart* part);  // both free and in no bin

  Driver& driver_;
  const PoolId pool_;
  const Stream stream_;
  const Bytes max_waste_;  // inside a part, before it is split although less than half of it would be left
  Bytes next_region_;
  std::array<Bin, bin_count> bins_;
  std::map<Address, BfcPart*> regions_;  // by their first part
  Stuck stuck_;
};

}  // namespace gmlake
