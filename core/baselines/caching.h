// PyTorch's caching allocator: best fit over free blocks of the same stream, blocks split and joined within the
// segments that the driver gave, segments given back only when memory runs short. What it shares with expandable
// segments and with the published GMLake, which was written as a patch of it, is open to derived classes.
//
// Read in this order: caching_options (sizes), caching_block (data), caching.cpp (a request from beginning to end),
// caching_release.cpp (what happens when memory runs short), caching_check.cpp, caching_history.cpp.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "allocator/allocator.h"
#include "baselines/caching_block.h"
#include "baselines/caching_options.h"
#include "baselines/pending_frees.h"
#include "baselines/pool_scopes.h"
#include "driver/driver.h"

namespace gmlake {

class CachingAllocator : public Allocator {
 public:
  CachingAllocator(Driver& driver, const CachingOptions& options);
  ~CachingAllocator() override;

  Address allocate(Bytes size, Stream stream) override;
  void release(Address address) override;
  void record_stream(Address address, Stream stream) override;
  void begin_pool(PoolId pool, StreamFilter filter) override;
  void end_pool(PoolId pool) override;
  void release_pool(PoolId pool) override;
  void retain_pool(PoolId pool) override;
  int pool_uses(PoolId pool) const override;
  void trim() override;
  void set_limit(Bytes reserved) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  void reset_accumulated() override;
  std::vector<SegmentInfo> segments() const override;
  void check() const override;

  // To continue a recorded history: segments, oldest first, as they stood at some moment. The driver must give out
  // their addresses next (SimulatedDriver::hand_out); otherwise, and where blocks do not fill their segment, this
  // throws InvalidArgument and that segment is not taken.
  void adopt(std::span<const SegmentInfo> segments);
  // Allocates at a given address; false if that is not within a free block of the stream.
  bool place(Address address, Bytes size, Stream stream);
  // Gives one wholly free segment back; false if there is none at the address.
  bool give_back(Address segment);

 protected:
  struct Request {
    Bytes requested = 0;
    Bytes size = 0;  // rounded
    Stream stream = 0;
    BlockPool* pool = nullptr;
    bool capturing = false;
  };

  virtual std::string_view name() const { return "caching"; }
  virtual Bytes rounded(Bytes size) const { return options_.rounded(size); }
  virtual bool should_split(const Block& block, Bytes size) const;
  // A free block, in no pool any more: from the pool; from the driver, trying once; by any means. Null: there is none.
  virtual Block* find(const Request& request);
  virtual Block* grow(const Request& request);
  virtual Block* acquire(const Request& request);
  virtual Block* hand_out(Block* block, const Request& request);
  virtual void settle(Block* block);  // no stream uses it any more
  virtual void release_free(BlockPool& pool);
  virtual void trim_locked();
  // Stitched blocks are in no segment: who has any shows and counts them here.
  virtual void add_stitched(std::vector<SegmentInfo>&) const {}
  virtual void check_stitched(Statistics&) const {}

  bool exceeds_limit(Bytes more) const;
  // A block too large to be split serves only requests that are as large, and nearly of its size.
  bool may_serve(const Block& block, const Request& request) const;
  Block* add_segment(std::unique_ptr<Segment> segment);  // counted as reserved; its one block is in no pool
  void remove_segment(Segment& segment);                 // wholly free and given back already; leaves its pool
  void count_handed_out(Block* block, Bytes requested);
  void put_back(Block* block);  // joins neighbours and enters the pool
  void release_cached();        // waits for every event, then gives back what is free
  void count_mapped(BlockPool& pool, std::int64_t bytes);
  void sync_stream(Stream stream);  // waits for all work issued on it so far
  Bytes reserved() const { return static_cast<Bytes>(statistics_.reserved_bytes.all().current); }

  Driver& driver_;
  const CachingOptions options_;
  mutable std::mutex mutex_;
  Statistics statistics_;
  std::map<Address, std::unique_ptr<Segment>> segments_;
  std::unordered_map<Address, Block*> allocated_;
  std::optional<Bytes> limit_;

 private:
  bool capturing(Stream stream) const;
  bool capturing_anywhere() const;
  BlockPool& pool_for(Bytes size, Stream stream);
  PoolPair& pools_of(PoolId id);
  void release_segment(Block* block);
  bool release_oversize(const Request& request);
  void collect_garbage();
  using PoolCounts = std::map<const BlockPool*, std::size_t>;
  void check_segment(const Segment& segment, Statistics& counted, PoolCounts& unused) const;
  SegmentInfo info_of(const Block* first) const;
  Bytes free_in_private_pools() const;

  PoolPair ordinary_{PoolId{}};
  std::map<PoolId, std::unique_ptr<PoolPair>> private_;
  PoolScopes scopes_;
  PendingFrees<Block> pending_;
  std::uint64_t registrations_ = 0;
};

std::unique_ptr<Allocator> make_caching(Driver& driver, const Options& options);

}  // namespace gmlake
