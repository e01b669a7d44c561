// The bridge: GMLake as a class of PyTorch's own, for what PyTorch asks of its allocator in C++ and not through the
// functions that a plugged-in allocator may set. It is compiled on the user's machine, because the class has another
// shape with every version of PyTorch, and it is optional. It holds no memory and no policy: each method passes the
// question on to the allocators of this process, and what is not answered here keeps the answer of the base class.
//
// PyTorch 2.8 to 2.15 are known. Where a method took other arguments in some of them, it is here once for each, without
// `override`: the one that this PyTorch has takes effect, the others are never called.
#include <c10/core/impl/GPUTrace.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "edge/process.h"
#include "edge/torch/callbacks.h"
#include "edge/torch/out_of_memory.h"
#include "edge/torch/sharing.h"

#define PYTORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace {

using c10::DeviceIndex;
using c10::cuda::MempoolId_t;
using gmlake::process_allocator_if_used;
using gmlake::process_device;
namespace caching = c10::cuda::CUDACachingAllocator;
namespace common = c10::CachingDeviceAllocator;

gmlake::PoolId as_pool(MempoolId_t id) {
  return {id.first, id.second};
}

void* as_pointer(gmlake::Address address) {
  return reinterpret_cast<void*>(address);
}

// Blocks that were used on streams of other devices, whose work no event of ours can follow: these devices are waited
// for when the block is freed. Rare enough for that, and for one look at a counter by everybody else.
class UsedElsewhere {
 public:
  void note(void* block, DeviceIndex device) {
    std::lock_guard lock(mutex_);
    devices_[block].insert(device);
    count_ = devices_.size();
  }
  void wait_for(void* block) noexcept {
    if (C10_LIKELY(count_ == 0)) return;
    std::unordered_set<DeviceIndex> devices;
    {
      std::lock_guard lock(mutex_);
      const auto found = devices_.find(block);
      if (found == devices_.end()) return;
      devices = std::move(found->second);
      devices_.erase(found);
      count_ = devices_.size();
    }
    try {
      for (const DeviceIndex device : devices) {
        const DeviceIndex before = c10::cuda::ExchangeDevice(device);
        c10::cuda::device_synchronize();
        c10::cuda::ExchangeDevice(before);
      }
    } catch (const std::exception&) {
      // A device that cannot even be waited for does nothing any more.
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::unordered_set<DeviceIndex>> devices_;
  std::atomic<std::size_t> count_ = 0;
};
UsedElsewhere& used_elsewhere = *new UsedElsewhere;  // for ever: blocks are freed until the very end of the process

// What frees every block. PyTorch compares it to tell our blocks from others.
void delete_block(void* block) {
  if (block == nullptr) return;
  used_elsewhere.wait_for(block);
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr))
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
  gmlake_torch_delete(block);
}

void* new_block(size_t size, DeviceIndex device, cudaStream_t stream) {
  void* const block = gmlake_torch_allocate(size, device, stream);
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr && block != nullptr))
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
  return block;
}

// Is it a block in use? A forked child, which has no allocator, lets go of its parent's blocks without a word.
bool may_be_deleted(void* block) {
  const auto at = reinterpret_cast<gmlake::Address>(block);
  bool used = false;
  for (int device = 0; device < gmlake::most_devices; ++device) {
    const auto* const allocator = process_allocator_if_used(device);
    used = used || allocator != nullptr;
    if (allocator != nullptr && allocator->block_size(at) != 0) return true;
  }
  return !used;
}

// Whoever registered with PyTorch for this has memory to let go of: tensors that other processes have given back.
bool run_free_memory_callbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  return freed;
}

DeviceIndex current_device() {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

// ---- figures, in PyTorch's structures

common::Stat as_stat(const gmlake::Stat& stat) {
  common::Stat result;
  result.current = stat.current;
  result.peak = stat.peak;
  result.allocated = stat.allocated;
  result.freed = stat.freed();
  return result;
}

common::StatArray as_stats(const gmlake::StatArray& stats) {
  return {as_stat(stats.by[0]), as_stat(stats.by[1]), as_stat(stats.by[2])};
}

template <typename DeviceStats>  // PyTorch's, as a parameter: what a version lacks is left out
DeviceStats as_device_stats(const gmlake::Statistics& statistics) {
  DeviceStats result;
  result.allocation = as_stats(statistics.allocation);
  result.segment = as_stats(statistics.segment);
  result.active = as_stats(statistics.active);
  result.inactive_split = as_stats(statistics.inactive_split);
  result.allocated_bytes = as_stats(statistics.allocated_bytes);
  result.reserved_bytes = as_stats(statistics.reserved_bytes);
  result.active_bytes = as_stats(statistics.active_bytes);
  result.inactive_split_bytes = as_stats(statistics.inactive_split_bytes);
  result.requested_bytes = as_stats(statistics.requested_bytes);
  if constexpr (requires { result.reserved_bytes_by_private_pools; })
    for (const auto& [pool, stats] : statistics.reserved_bytes_by_private_pools)
      result.reserved_bytes_by_private_pools[{pool.capture, pool.user}] = as_stats(stats);
  result.oversize_allocations = as_stat(statistics.oversize_allocations);
  result.oversize_segments = as_stat(statistics.oversize_segments);
  result.num_alloc_retries = statistics.num_alloc_retries;
  result.num_ooms = statistics.num_ooms;
  result.num_sync_all_streams = statistics.num_sync_all_streams;
  result.num_device_alloc = statistics.num_device_alloc;
  result.num_device_free = statistics.num_device_free;
  result.max_split_size = statistics.max_split_size;
  return result;
}

// A run of blocks that is shown as one segment. Memory that serves a stitched block is shown there and not at home.
caching::SegmentInfo as_segment(DeviceIndex device, const gmlake::SegmentInfo& whole, gmlake::Address address,
                                std::vector<caching::BlockInfo> blocks) {
  caching::SegmentInfo result;
  result.device = device;
  result.address = address;
  result.stream = static_cast<decltype(result.stream)>(as_pointer(whole.stream));
  result.is_large = whole.kind == gmlake::PoolKind::large;
  result.is_expandable = whole.expandable;
  result.owner_private_pool_id = {whole.pool.capture, whole.pool.user};
  for (const caching::BlockInfo& block : blocks) {
    result.total_size += block.size;
    result.requested_size += block.requested_size;
    if (block.allocated) result.allocated_size += block.size;
    if (block.active) result.active_size += block.size;
  }
  result.blocks = std::move(blocks);
  return result;
}

void add_segments(DeviceIndex device, const gmlake::SegmentInfo& whole, std::vector<caching::SegmentInfo>& segments) {
  using State = gmlake::BlockInfo::State;
  std::vector<caching::BlockInfo> run;
  gmlake::Address begin = 0;
  bool used = false;
  auto finish = [&] {
    if (!run.empty() && (used || !whole.stitched)) segments.push_back(as_segment(device, whole, begin, std::move(run)));
    run = {};
    used = false;
  };
  for (const gmlake::BlockInfo& block : whole.blocks) {
    if (block.state == State::lent) {
      finish();
      continue;
    }
    if (run.empty()) begin = block.address;
    caching::BlockInfo shown;
    shown.size = block.size;
    shown.requested_size = block.requested;
    shown.allocated = block.state == State::active_allocated;
    shown.active = block.state != State::inactive;
    used = used || shown.active;
    run.push_back(std::move(shown));
  }
  finish();
}

// The latest of what record_function said while history was recorded, as many as there are events.
using Annotation = decltype(caching::SnapshotInfo::external_annotations)::value_type;

class Annotations {
 public:
  void add(const std::vector<std::pair<std::string, std::string>>& said) {
    const std::size_t most = gmlake::process_journals();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    Annotation entry(current_device(), {});
    entry.time_.t_ = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    for (const auto& [name, value] : said) entry.recordUserMetadata(name, value);
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    while (entries_.size() > most) entries_.pop_front();
  }
  std::vector<Annotation> all() {
    std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }
  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  std::mutex mutex_;
  std::deque<Annotation> entries_;
};
Annotations& annotations = *new Annotations;

struct Checkpoint final : caching::AllocatorState {
  MempoolId_t pool;
  std::vector<gmlake::LiveBlock> blocks;
};

// ---- the allocator as PyTorch sees it

class Bridge final : public torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator {
 public:
  Bridge() : CUDAPluggableAllocator(&gmlake_torch_allocate, &gmlake_torch_free) { initialized_ = true; }

  // Blocks: straight to GMLake, which needs no second book of what is in use.
  c10::DataPtr allocate(size_t size) override {
    const DeviceIndex device = current_device();
    void* const block = new_block(size, device, c10::cuda::getCurrentCUDAStream(device));
    return {block, block, &delete_block, c10::Device(c10::kCUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void* raw_alloc(size_t size) override {
    const DeviceIndex device = current_device();
    return new_block(size, device, c10::cuda::getCurrentCUDAStream(device));
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return new_block(size, current_device(), stream);
  }
  void raw_delete(void* block) override {
    TORCH_CHECK(block == nullptr || may_be_deleted(block), "invalid device pointer: ", block);
    delete_block(block);
  }
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    if (block.get() == nullptr) return;
    if (stream.device_index() == block.device().index())
      gmlake_torch_record_stream(block.get(), stream.stream());
    else
      used_elsewhere.note(block.get(), stream.device_index());
  }
  void* getBaseAllocation(void* address, size_t* size) override { return gmlake_torch_base_allocation(address, size); }

  // The device.
  void init(int device_count) override { gmlake_torch_init(device_count); }
  double getMemoryFraction(DeviceIndex device) override { return gmlake::process_fraction(device); }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    gmlake_torch_set_memory_fraction(fraction, device);
  }
  void emptyCache(MempoolId_t id) override {
    if (!as_pool(id)) return gmlake_torch_empty_cache();
    for (int device = 0; device < gmlake::most_devices; ++device)
      if (auto* const allocator = process_allocator_if_used(device)) allocator->trim_pool(as_pool(id));
  }
  // What a single request could get: what the device has left, and free chunks, which can be stitched.
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    const gmlake::ProcessDevice served = process_device(device);
    const gmlake::Statistics statistics = served.allocator.statistics();
    gmlake::Bytes free = 0, total = 0;
    (void)served.driver.memory_info(free, total);
    const auto allowed = static_cast<int64_t>(gmlake::process_fraction(device) * static_cast<double>(total));
    const int64_t reserved = statistics.reserved_bytes.all().current;
    const int64_t room = std::max<int64_t>(0, std::min(static_cast<int64_t>(free), allowed - reserved));
    const int64_t idle =
        reserved - statistics.active_bytes.all().current - statistics.inactive_split_bytes.all().current;
    *largest = std::max(*largest, static_cast<size_t>(room + std::max<int64_t>(0, idle)));
  }
#if PYTORCH_SINCE(10)
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { return {}; }
#endif
  // Memory that was mapped needs the call for peers where the devices cannot reach each other.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream,
                          bool reachable) override {
    if (reachable || to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
  }
  std::string name() override { return "gmlake"; }

  // Figures.
  common::DeviceStats getDeviceStats(DeviceIndex device) override {
    const auto* const allocator = process_allocator_if_used(device);
    return allocator == nullptr ? common::DeviceStats() : as_device_stats<common::DeviceStats>(allocator->statistics());
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    if (auto* const allocator = process_allocator_if_used(device)) allocator->reset_accumulated();
  }
  void resetPeakStats(DeviceIndex device) override {
    if (auto* const allocator = process_allocator_if_used(device)) allocator->reset_peaks();
  }
  // Events and stacks are recorded in Python, which PyTorch's own functions there ask.
  caching::SnapshotInfo snapshot(MempoolId_t id, bool) { return snapshot(id); }  // since 2.11
  caching::SnapshotInfo snapshot(MempoolId_t id) {
    caching::SnapshotInfo result{};
    for (int device = 0; device < gmlake::most_devices; ++device) {
      const auto* const allocator = process_allocator_if_used(device);
      if (allocator == nullptr) continue;
      for (const gmlake::SegmentInfo& segment : allocator->segments())
        if (!as_pool(id) || segment.pool == as_pool(id))
          add_segments(static_cast<DeviceIndex>(device), segment, result.segments);
    }
    result.external_annotations = annotations.all();
    return result;
  }
  bool isHistoryEnabled() override { return gmlake::process_journals() > 0; }
  // Asked for none of the device's, PyTorch has recorded what else there is: pinned memory, annotations.
  void recordHistory(bool on, caching::CreateContextFn context, size_t entries, caching::RecordContext when, bool clear,
                     const std::vector<std::string>&) {  // since 2.11
    recordHistory(on, std::move(context), entries, when, clear);
  }
  void recordHistory(bool on, caching::CreateContextFn, size_t, caching::RecordContext, bool clear) {
    if (clear) annotations.clear();
    TORCH_CHECK(!on, "GMLake records memory history through torch.cuda.memory._record_memory_history only");
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& said) override {
    annotations.add(said);
  }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    gmlake::observe_out_of_memory(std::move(observer));
  }
#if PYTORCH_SINCE(12)
  void attachOomRejectionObserver(caching::OomRejectionObserver) override {}  // nothing is rejected beforehand
#endif
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker) override {
    TORCH_CHECK(false, "GMLake's memory moves, and is not registered with NCCL; unset ",
                "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK, and register no MemPool");
  }

  // Pools.
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> source) {  // since 2.11
    createOrIncrefPool(device, id, source.get());
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, CUDAAllocator* source) {
    TORCH_CHECK(source == nullptr || source == this,
                "GMLake serves a MemPool from its own memory only; leave out the pool's allocator");
    process_device(device).allocator.retain_pool(as_pool(id));
  }
  // The destructor of a pool calls what follows too, in a forked child as well: there it is the only use.
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override {
    const auto* const allocator = process_allocator_if_used(device);
    return allocator == nullptr ? 1 : allocator->pool_uses(as_pool(id));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t id) { setUseOnOOM(device, id, true); }
  void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool on) {  // since 2.11
    if (auto* const allocator = process_allocator_if_used(device)) allocator->share_pool(as_pool(id), on);
  }
  void setNoSplit(DeviceIndex, MempoolId_t) {}  // since 2.10; pools have no segments that could be kept whole
  void beginAllocateToPool(DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter) override {
    gmlake::torch_begin_pool(
        device, id, [filter = std::move(filter)](void* stream) { return filter(static_cast<cudaStream_t>(stream)); });
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override { gmlake::torch_end_pool(device, id); }
  void releasePool(DeviceIndex device, MempoolId_t id) override { gmlake::torch_release_pool(device, id); }

  // Checkpoints of pools, for the graph trees of torch.compile.
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    const auto blocks = process_device(device).allocator.live_blocks(as_pool(id));
    size_t known = 0;
    for (const gmlake::LiveBlock& block : blocks) known += expected.count(as_pointer(block.address));
    return known == blocks.size() && known == expected.size();
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    auto state = std::make_shared<Checkpoint>();
    state->pool = id;
    state->blocks = process_device(device).allocator.live_blocks(as_pool(id));
    return state;
  }
  caching::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                  std::shared_ptr<caching::AllocatorState> state) override {
    const auto* const checkpoint = dynamic_cast<const Checkpoint*>(state.get());
    TORCH_CHECK(checkpoint != nullptr, "this is no checkpoint of a pool of GMLake's");
    caching::CheckpointDelta delta;
    for (const gmlake::LiveBlock& block : gmlake::torch_restore_pool(device, checkpoint->pool, checkpoint->blocks))
      delta.ptrs_freed.push_back(as_pointer(block.address));
    for (const gmlake::LiveBlock& block : checkpoint->blocks) {
      void* const at = as_pointer(block.address);
      delta.dataptrs_allocd.emplace_back(at, at, &delete_block, c10::Device(c10::kCUDA, device));
    }
    return delta;
  }

  // Tensors that another process uses too.
  caching::ShareableHandle shareIpcHandle(void* block) override {
    gmlake::SharedBlock shared = gmlake::share_block(block);
    return {shared.offset, std::move(shared.handle)};
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return gmlake::open_shared(handle); }
};

}  // namespace

// Puts the bridge in the place of PyTorch's allocator, for good. Returns why that failed, or NULL.
extern "C" const char* gmlake_bridge_install() {
  static std::string failure;
  static auto* const kept = new std::shared_ptr<caching::CUDAAllocator>(std::make_shared<Bridge>());
  try {
    gmlake::reclaim_with(&run_free_memory_callbacks);
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(*kept);
    c10::SetAllocator(c10::kCUDA, kept->get(), std::numeric_limits<uint8_t>::max());
    return nullptr;
  } catch (const std::exception& error) {
    failure = error.what();
    return failure.c_str();
  }
}
