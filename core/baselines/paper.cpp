// How a request is served: which pBlock or sBlock, or what is created for it.
#include "baselines/paper.h"

#include <algorithm>

#include "base/error.h"
#include "baselines/failures.h"

namespace gmlake {
namespace {

using Kind = OptionRow::Kind;

constexpr OptionRow rows[] = {
    {"frag_limit", Kind::bytes, "512MiB", "requests below this are never stitched"},
    {"reuse_limit", Kind::real, "10", "a stitched block may serve requests so many times smaller"},
    {"gc", Kind::bytes, "1000GiB", "addresses of stitched blocks above which unused ones are given back"},
    {"realloc", Kind::boolean, "false", "create only the missing bytes of a request and stitch the rest"},
    {"defrag_level", Kind::integer, "0",
     "stitch always (0), when the driver has no more memory (1), or when giving back did not help either (2)"},
};

constexpr Bytes published_chunk = 2 * MiB;
constexpr int any_time = 2;  // stitching that follows a creation is never too early

// The published comparison of free blocks knows no registration.
CachingOptions by_address() {
  CachingOptions options;
  options.ties = CachingOptions::Ties::address;
  return options;
}

}  // namespace

PaperOptions::PaperOptions(const Options& options)
    : frag_limit(options.bytes("frag_limit")),
      reuse_limit(options.real("reuse_limit")),
      gc(options.bytes("gc")),
      realloc(options.boolean("realloc")),
      defrag_level(options.integer("defrag_level")) {
  if (reuse_limit < 1)
    throw InvalidArgument("option reuse_limit is " + options.text("reuse_limit") + "; it must be at least 1");
  if (defrag_level < 0 || defrag_level > 2)
    throw InvalidArgument("option defrag_level is " + options.text("defrag_level") + "; it must be 0, 1 or 2");
}

PaperAllocator::PaperAllocator(Driver& driver, const PaperOptions& options)
    : CachingAllocator(driver, by_address()),
      paper_(options),
      chunk_(round_up(published_chunk, driver.granularity())) {}

PaperAllocator::~PaperAllocator() {
  while (!stitched_.empty()) {
    StitchedBlock* stitched = stitched_.begin()->second.get();
    (void)driver_.unmap(stitched->address, stitched->mapped);
    forget(stitched);
  }
}

Bytes PaperAllocator::rounded(Bytes size) const {
  const Bytes fine = options_.rounded(size);
  return fine > CachingOptions::small_request ? round_up(size, chunk_) : fine;
}

bool PaperAllocator::should_split(const Block& block, Bytes size) const {
  return block.size - size >= (block.pool->kind == PoolKind::large ? chunk_ : CachingOptions::block_step);
}

Block* PaperAllocator::acquire(const Request& request) {
  if (request.pool->kind == PoolKind::small) return CachingAllocator::acquire(request);
  if (Block* block = find(request)) return block;
  if (Block* block = find_stitched(request)) return block;
  if (Block* block = stitch(request, 0)) return block;
  if (Block* block = grow(request)) return block;
  if (Block* block = stitch(request, 1)) return block;
  if (!request.capturing) {
    release_cached();
    ++statistics_.num_alloc_retries;
    if (Block* block = grow(request)) return block;
  }
  return stitch(request, 2);
}

StitchedBlock* PaperAllocator::find_stitched(const Request& request) {
  StitchedBlock key;
  key.pool = request.pool;
  key.stream = request.stream;
  key.capacity = request.size;
  const double largest = static_cast<double>(request.size) * paper_.reuse_limit;
  for (auto next = idle_.lower_bound(&key); next != idle_.end(); ++next) {
    StitchedBlock* stitched = *next;
    if (stitched->pool != request.pool || stitched->stream != request.stream) return nullptr;
    if (static_cast<double>(stitched->capacity) > largest) return nullptr;
    if (!stitched->available()) continue;
    idle_.erase(next);
    ++statistics_.sblock_hits;
    return stitched;
  }
  return nullptr;
}

StitchedBlock* PaperAllocator::stitch(const Request& request, int time) {
  if (time < paper_.defrag_level || request.size < paper_.frag_limit) return nullptr;
  std::vector<ChunkRun> runs;
  Address range = 0;
  if (!choose_runs(request, runs)) return nullptr;
  if (stitched_bytes_ + request.size > paper_.gc) collect_stitched(2, 0);
  if (!map_runs(request, runs, range)) return nullptr;
  auto made = std::make_unique<StitchedBlock>();
  StitchedBlock* stitched = made.get();
  stitched->address = range;
  stitched->capacity = stitched->mapped = request.size;
  stitched->stream = request.stream;
  stitched->pool = request.pool;
  stitched->stitched = true;
  stitched->runs = std::move(runs);
  stitched_.emplace(range, std::move(made));
  stitched_bytes_ += request.size;
  ++statistics_.stitches;
  statistics_.sblocks.increase(1);
  statistics_.address_bytes.increase(signed_bytes(request.size));
  statistics_.mapped_bytes.increase(signed_bytes(request.size));
  return stitched;
}

// The largest free pBlocks of the stream, until they suffice; of the last only what is needed. Where there is only one
// free pBlock nothing is stitched, even if it became free during this very request and would do.
bool PaperAllocator::choose_runs(const Request& request, std::vector<ChunkRun>& runs) const {
  Block key{.size = CachingOptions::unlimited, .stream = request.stream, .used_on = {}};
  const auto& blocks = request.pool->blocks;
  std::size_t seen = 0;
  Bytes missing = request.size;
  for (auto next = blocks.lower_bound(&key); (missing > 0 || seen < 2) && next != blocks.begin(); ++seen) {
    const Block* block = *--next;
    if (block->stream != request.stream) break;
    if (missing == 0) continue;
    const Bytes used = std::min(block->size, missing);
    ChunkSegment& segment = segment_of(block);
    runs.push_back({&segment, (block->address - segment.address) / chunk_, used / chunk_});
    missing -= used;
  }
  return missing == 0 && seen > 1;
}

// When the driver has no addresses or mappings left, sBlocks are given back and it is asked again, up to three times.
bool PaperAllocator::map_runs(const Request& request, const std::vector<ChunkRun>& runs, Address& range) {
  for (int time = 0; time < 3; ++time) {
    const Status status = map_again(driver_, runs, chunk_, range);
    if (status == Status::success) return true;
    if (status != Status::out_of_memory) expect_success(status, "map");
    collect_stitched(time, request.size);
  }
  return false;
}

Block* PaperAllocator::grow(const Request& request) {
  if (request.pool->kind == PoolKind::small) return CachingAllocator::grow(request);
  const Bytes whole = round_up(options_.segment_size(request.size), chunk_);
  if (!paper_.realloc || request.size < paper_.frag_limit) return create(request, whole);
  Bytes available = 0;
  Block key{.stream = request.stream, .used_on = {}};
  const auto& blocks = request.pool->blocks;
  for (auto next = blocks.lower_bound(&key); next != blocks.end() && (*next)->stream == request.stream; ++next)
    available += (*next)->size;
  if (available == 0 || available >= request.size) return create(request, whole);
  Block* rest = create(request, round_up(options_.segment_size(request.size - available), chunk_));
  if (rest == nullptr) return nullptr;
  if (rest->size >= request.size) return rest;
  rest->pool->insert(rest);
  return stitch(request, any_time);
}

Block* PaperAllocator::create(const Request& request, Bytes size) {
  if (exceeds_limit(size)) return nullptr;
  Address range = 0;
  std::vector<Handle> chunks;
  for (int time = 0;; ++time) {
    const Status status = create_chunks(driver_, size, chunk_, range, chunks);
    if (status == Status::success) break;
    if (status != Status::out_of_memory) expect_success(status, "create");
    // With memory left it is addresses that are missing, which sBlocks may have.
    Bytes free = 0, total = 0;
    expect_success(driver_.memory_info(free, total), "memory_info");
    if (free < size || stitched_bytes_ < size || time == 2) return nullptr;
    collect_stitched(time, size);
  }
  statistics_.address_bytes.increase(signed_bytes(size));
  statistics_.mapped_bytes.increase(signed_bytes(size));
  return add_segment(
      std::make_unique<ChunkSegment>(range, size, chunk_, std::move(chunks), request.stream, *request.pool));
}

Block* PaperAllocator::hand_out(Block* block, const Request& request) {
  if (block->stitched) {
    block->size = request.size;
    lend(static_cast<StitchedBlock&>(*block));
    count_handed_out(block, request.requested);
    return block;
  }
  block = CachingAllocator::hand_out(block, request);
  if (block->pool->kind == PoolKind::large) segment_of(block).mark(block, true);
  return block;
}

std::span<const OptionRow> paper_option_rows() {
  return rows;
}

std::unique_ptr<Allocator> make_paper(Driver& driver, const Options& options) {
  return std::make_unique<PaperAllocator>(driver, PaperOptions(options));
}

}  // namespace gmlake
