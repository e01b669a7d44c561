// GMLake as published (ASPLOS 2024): the behaviour of its code, which is what was measured, not of its text. Requests
// above 1 MiB are rounded to 2 MiB chunks; the best-fitting pBlock is split; without one a free sBlock of up to
// reuse_limit times the size serves; without that, requests of at least frag_limit are stitched from the largest free
// pBlocks down; and only then is memory created, for the whole request. Small requests go to the caching allocator.
//
// It differs where the code crashes or loses memory: a failed stitch changes nothing, an sBlock in use survives when
// the unused chunks at its end are given back, private pools have sBlocks of their own, and with `realloc` a request
// that may not be stitched is created whole. The code also records an event at every release, of which only those of
// sBlocks are kept here: the others decide nothing.
#pragma once

#include "baselines/caching.h"
#include "baselines/paper_blocks.h"

namespace gmlake {

struct PaperOptions {
  Bytes frag_limit;           // smaller requests are never stitched
  double reuse_limit;         // an sBlock serves requests down to this fraction of it
  Bytes gc;                   // of addresses that sBlocks may have
  bool realloc;               // create only the missing bytes and stitch
  std::int64_t defrag_level;  // stitch: 0 always, 1 when the driver has no memory, 2 when trimming did not help

  explicit PaperOptions(const Options& options);
};

class PaperAllocator final : public CachingAllocator {
 public:
  PaperAllocator(Driver& driver, const PaperOptions& options);
  ~PaperAllocator() override;

 private:
  std::string_view name() const override { return "paper"; }
  Bytes rounded(Bytes size) const override;
  bool should_split(const Block& block, Bytes size) const override;
  Block* acquire(const Request& request) override;
  Block* grow(const Request& request) override;
  Block* hand_out(Block* block, const Request& request) override;
  void settle(Block* block) override;
  void release_free(BlockPool& pool) override;
  void trim_locked() override;
  void add_stitched(std::vector<SegmentInfo>& segments) const override;
  void check_stitched(Statistics& counted) const override;

  StitchedBlock* find_stitched(const Request& request);
  StitchedBlock* stitch(const Request& request, int time);
  bool choose_runs(const Request& request, std::vector<ChunkRun>& runs) const;
  bool map_runs(const Request& request, const std::vector<ChunkRun>& runs, Address& range);
  Block* create(const Request& request, Bytes size);  // a new pBlock, in no pool

  void lend(StitchedBlock& stitched);
  Block* carve(const ChunkRun& run);  // the free pBlock of exactly these chunks, out of its pool
  void put_piece(Block* block);       // a free piece of a pBlock into the pool, as it is
  void record_last_use(StitchedBlock& stitched);
  bool finished(StitchedBlock& stitched);

  // Gives sBlocks that nobody has in hand back: first those with a busy chunk, then (time > 0) the others, least
  // recently used first, up to the first of a stream whose last use has not finished. With a need, of the first kind
  // only until 4 (time 0) or 16 times (time 1) that is gone.
  void collect_stitched(int time, Bytes need);
  void drop(StitchedBlock* stitched);
  void forget(StitchedBlock* stitched);
  void detach(const std::set<ChunkSegment*>& doomed);  // no sBlock maps their chunks any longer
  void check_lenders(const StitchedBlock& stitched) const;

  const PaperOptions paper_;
  const Bytes chunk_;
  std::map<Address, std::unique_ptr<StitchedBlock>> stitched_;  // all of them
  std::set<StitchedBlock*, ByCapacity> idle_;                   // in nobody's hands
  Bytes stitched_bytes_ = 0;                                    // addresses of all
  std::uint64_t releases_ = 0;
};

std::span<const OptionRow> paper_option_rows();
std::unique_ptr<Allocator> make_paper(Driver& driver, const Options& options);

}  // namespace gmlake
