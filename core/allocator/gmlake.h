// Our allocator: routes requests to pools, keeps released blocks that streams still use in limbo, counts, and climbs
// the ladder before it gives up. Where memory comes from is decided in pool/.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "allocator/allocator.h"
#include "base/lock.h"
#include "base/options.h"
#include "pool/lake.h"
#include "pool/slabs.h"
#include "pool/small.h"
#include "pool/supply.h"

namespace gmlake {

class GMLakeAllocator final : public Allocator {
 public:
  static std::span<const OptionRow> option_rows();
  static std::unique_ptr<Allocator> make(Driver& driver, const Options& options);

  // On the board, if there is one, so that others see the counters.
  static void* operator new(std::size_t size) { return Board::place(size); }
  static void operator delete(void* at, std::size_t size) noexcept { Board::give_back(at, size); }

  GMLakeAllocator(Driver& driver, const Policy& policy);
  ~GMLakeAllocator() override;

  Address allocate(Bytes size, Stream stream) override;
  void release(Address address) override;
  void record_stream(Address address, Stream stream) override;
  void begin_pool(PoolId id, StreamFilter filter) override;
  void end_pool(PoolId id) override;
  void release_pool(PoolId id) override;
  void retain_pool(PoolId id) override;
  int pool_uses(PoolId id) const override;
  void trim_pool(PoolId id) override;
  void share_pool(PoolId id, bool on) override;
  std::vector<LiveBlock> live_blocks(PoolId id) const override;
  std::vector<LiveBlock> restore_pool(PoolId id, std::span<const LiveBlock> blocks) override;
  void trim() override;
  void set_limit(Bytes reserved) override;
  Statistics statistics() const override;
  Totals totals() const override;
  void reset_peaks() override;
  void reset_accumulated() override;
  std::vector<SegmentInfo> segments() const override;
  std::vector<Gauge> gauges() const override;
  Bytes block_size(Address address) const override;
  void check() const override;
  void start_journal(std::size_t entries) override;
  void resize_journal(std::size_t entries) override;
  std::vector<JournalEntry> journal() const override;
  void annotate(Address address) override;
  void note_snapshot() override;

 private:
  struct Pool;
  struct Block {  // in a client's hands, or none
    Pool* pool = nullptr;
    SmallPool::Block* small = nullptr;
    Lake::Block large;
    explicit operator bool() const { return small != nullptr || large; }
  };
  struct Use {  // of a block, by the client
    PoolKind kind;
    Bytes bytes;
    Bytes requested;
    Lane lane;       // of the stream it was allocated on
    LaneSet others;  // further ones it was used on
  };
  // The ordinary pool and the private ones. A private pool lives while a graph uses it or a block of it is out.
  struct Pool {
    Pool(Supply& supply, PoolId the_id, Address range, Bytes size, Bytes lake_size);
    struct Addresses {  // freed after everything that was mapped in them
      Ranges& ranges;
      Address at;
      Bytes size;
      ~Addresses() { ranges.free(at, size); }
      bool contains(Address address) const { return address - at < size; }
    };
    PoolId id;
    int uses = 0;
    bool shared = false;  // serves other requests before they run out of memory
    Addresses addresses;
    Lake lake;
    Slabs slabs;
    SmallPool small;
    Block find(Address address);
    std::vector<LiveBlock> live(const Fences& fences) const;
    bool empty() const { return lake.empty() && small.empty(); }
    bool vacant() const { return lake.vacant() && slabs.bytes() == 0; }  // holds no memory
    void trim(Bytes enough);
  };
  struct Scope {
    PoolId id;
    StreamFilter filter;
    bool met = false;  // a stream of it was heard of: until then one may be captured without our knowing
  };
  struct Released {
    Block block;
    Clock clock;
  };
  struct Limbo {  // blocks that the same lanes used: one that is slow holds up no others
    LaneSet lanes;
    std::vector<Released> waiting;  // for the ticket
    Fences::Ticket ticket;
    std::vector<Released> later;  // since it was made
  };

  std::unique_ptr<Pool> make_pool(PoolId id);
  Pool& private_pool(PoolId id);  // which is made if need be
  Pool& known_pool(PoolId id) const;
  void empty_pool(Pool& pool, std::span<const LiveBlock> blocks);
  bool fill_pool(Pool& pool, std::span<const LiveBlock> blocks);
  Pool& route(Stream stream) { return scopes_.empty() ? *ordinary_ : route_by_scope(stream); }
  Pool& route_by_scope(Stream stream);
  void watch_captures();
  template <typename Visit>
  void each_pool(Visit visit) const {
    visit(*ordinary_);
    for (const auto& [id, pool] : private_) visit(*pool);
  }
  Address try_allocate(Pool& pool, Bytes rounded, Bytes size, Stream stream);
  Address climb(Pool& pool, Bytes rounded, Bytes size, Stream stream);
  Address try_shared_pools(Bytes rounded, Bytes size, Stream stream);
  Block find(Address address) const;  // throws unless it is in use
  Block find_private(Address address) const;
  Block look_up(Address address) const;  // none unless it is in use
  static Use use(const Block& block);
  static LaneSet& others(const Block& block);  // lanes it was used on besides its own
  void release_any(Address address);
  void postpone(const Block& block, const Use& use);
  void free(const Block& block, const Clock& clock, const Use& use);
  void note(JournalEntry::Action action, const Block& block, const Use& use);
  bool settle_limbo(bool wait);
  bool settle(Limbo& limbo, bool wait);
  void release_unused_pools(PoolId only = {});  // {0, 0}: all
  void give_back_everything();
  void refresh_inactive() const;
  [[noreturn]] void out_of_memory(Bytes size, Stream stream);
  [[noreturn]] static void refuse(Bytes size);

  mutable Lock lock_;
  mutable Supply supply_;
  std::unique_ptr<Pool> ordinary_;
  std::map<PoolId, std::unique_ptr<Pool>> private_;
  std::vector<Scope> scopes_;  // innermost last
  std::vector<Limbo> limbo_;
};

}  // namespace gmlake
