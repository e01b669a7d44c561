// Every request goes to the driver and every release gives it back: what a program without an allocator of its own
// does. Freeing waits for the device, so memory that another stream uses needs no events, and nothing is ever cached:
// private pools are accepted but keep nothing apart.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "allocator/allocator.h"
#include "base/options.h"
#include "baselines/pool_scopes.h"
#include "driver/driver.h"

namespace gmlake {

class NativeAllocator final : public Allocator {
 public:
  explicit NativeAllocator(Driver& driver) : driver_(driver) {}
  ~NativeAllocator() override;

  Address allocate(Bytes size, Stream stream) override;
  void release(Address address) override;
  void record_stream(Address address, Stream stream) override;
  void begin_pool(PoolId pool, StreamFilter filter) override;
  void end_pool(PoolId pool) override;
  void release_pool(PoolId pool) override;
  void trim() override {}
  void set_limit(Bytes reserved) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  void reset_accumulated() override;
  std::vector<SegmentInfo> segments() const override;
  void check() const override;

 private:
  struct Block {
    Bytes size = 0;
    Bytes requested = 0;
    Stream stream = 0;
    PoolId pool;
  };

  Driver& driver_;
  mutable std::mutex mutex_;
  std::unordered_map<Address, Block> blocks_;
  PoolScopes scopes_;
  std::optional<Bytes> limit_;
  Statistics statistics_;
};

std::unique_ptr<Allocator> make_native(Driver& driver, const Options& options);

}  // namespace gmlake
