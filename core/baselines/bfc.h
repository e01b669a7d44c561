// TensorFlow's GPU allocator (BFC). TensorFlow has one compute stream per device and one such allocator for it; where a
// trace has several streams, each has an arena of its own, as has each private pool, because memory may not move
// between streams without waiting. All share the device and the limit. A request that fails waits for outstanding
// events where TensorFlow would wait for other threads to release something.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/options.h"
#include "baselines/bfc_arena.h"
#include "baselines/pending_frees.h"
#include "baselines/pool_scopes.h"

namespace gmlake {

struct BfcOptions {
  bool allow_growth;              // regions double from 2 MiB on; otherwise the first is all there is
  Bytes memory_limit;             // 0: what the device has
  double fragmentation_fraction;  // of the limit that a part may waste; 0: 128 MiB
  bool garbage_collection;        // give unused regions back before giving up

  explicit BfcOptions(const Options& options);
};

class BfcAllocator final : public Allocator {
 public:
  BfcAllocator(Driver& driver, const BfcOptions& options);

  Address allocate(Bytes size, Stream stream) override;
  void release(Address address) override;
  void record_stream(Address address, Stream stream) override;
  void begin_pool(PoolId pool, StreamFilter filter) override;
  void end_pool(PoolId pool) override;
  void release_pool(PoolId pool) override;
  void trim() override;
  void set_limit(Bytes reserved) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  void reset_accumulated() override;
  std::vector<SegmentInfo> segments() const override;
  void check() const override;

 private:
  using Arenas = std::map<std::pair<PoolId, Stream>, BfcArena>;

  BfcArena& arena_for(Stream stream);
  BfcPart* acquire(BfcArena& arena, Bytes size, bool capturing);
  BfcPart* take(BfcArena& arena, Bytes size);
  bool extend(BfcArena& arena, Bytes size);
  Bytes available() const;  // what may still be asked of the driver
  void release_regions(BfcArena& arena);
  void release_all();  // waits for every event, then gives back what is free
  void settle(BfcPart* part);
  bool capturing(Stream stream) const;

  Driver& driver_;
  const BfcOptions options_;
  mutable std::mutex mutex_;
  Arenas arenas_;
  std::unordered_map<Address, BfcPart*> allocated_;
  PoolScopes scopes_;
  PendingFrees<BfcPart> pending_;
  std::optional<Bytes> limit_;
  Statistics statistics_;
};

std::span<const OptionRow> bfc_option_rows();
std::unique_ptr<Allocator> make_bfc(Driver& driver, const Options& options);

}  // namespace gmlake
