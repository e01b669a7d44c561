// The bridge: GMLake as a class of PyTorch's own, for what PyTorch asks of its allocator in C++ and not through the
// functions that a plugged-in allocator may set. It is compiled on the user's machine, because the class has another
// shape with every version of PyTorch, and it is optional. It holds no memory and no policy: each method passes the
// question on to the allocators of this process, and what is not answered here keeps the answer of the base class.
//
// PyTorch 2.8 to 2.15 are known. Where a method took other arguments in some of them, it is here once for each, without
// `override`: the one that this PyTorch has takes effect, the others are never called.
#include <c10/util/env.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "blocks.h"
#include "edge/process.h"
#include "edge/torch/callbacks.h"
#include "edge/torch/out_of_memory.h"
#include "edge/torch/sharing.h"
#include "figures.h"

#define PYTORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace gmlake::bridge {
namespace {

constexpr bool nccl_always_listens = PYTORCH_SINCE(15);

using c10::cuda::MempoolId_t;

PoolId as_pool(MempoolId_t id) {
  return {id.first, id.second};
}

// Whoever registered with PyTorch for this has memory to let go of: tensors that other processes have given back.
bool run_free_memory_callbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  return freed;
}

struct Checkpoint final : caching::AllocatorState {
  MempoolId_t pool;
  std::vector<LiveBlock> blocks;
};

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
  double getMemoryFraction(DeviceIndex device) override { return process_fraction(device); }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    gmlake_torch_set_memory_fraction(fraction, device);
  }
  void emptyCache(MempoolId_t id) override {
    if (!as_pool(id)) return gmlake_torch_empty_cache();
    for (int device = 0; device < most_devices; ++device)
      if (auto* const allocator = process_allocator_if_used(device)) allocator->trim_pool(as_pool(id));
  }
  // What a single request could get: what the device has left, and free chunks, which can be stitched.
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    const ProcessDevice served = process_device(device);
    const Statistics statistics = served.allocator.statistics();
    Bytes free = 0, total = 0;
    (void)served.driver.memory_info(free, total);
    const auto allowed = static_cast<int64_t>(process_fraction(device) * static_cast<double>(total));
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
    for (int device = 0; device < most_devices; ++device) {
      const auto* const allocator = process_allocator_if_used(device);
      if (allocator == nullptr) continue;
      for (const SegmentInfo& segment : allocator->segments())
        if (nccl_always_listens ? !as_pool(id) && !segment.pool : !as_pool(id) || segment.pool == as_pool(id))
          add_segments(static_cast<DeviceIndex>(device), segment, result.segments);
    }
    result.external_annotations = annotations.all();
    return result;
  }
  bool isHistoryEnabled() override { return process_journals() > 0; }
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
    observe_out_of_memory(std::move(observer));
  }
#if PYTORCH_SINCE(12)
  void attachOomRejectionObserver(caching::OomRejectionObserver) override {}  // nothing is rejected beforehand
#endif
  // What trackers want to hear is when NCCL shall register memory. From 2.15 on its backend attaches one always, at
  // times from a destructor: there it is not told anything, and snapshots show nothing that it would register.
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker) override {
    TORCH_CHECK(
        nccl_always_listens && !c10::utils::check_env("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK").value_or(false),
        "GMLake's memory moves, and is not registered with NCCL; unset ",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK, and register no MemPool");
  }

  // Pools.
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> source) {  // since 2.11
    createOrIncrefPool(device, id, source.get());
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, CUDAAllocator* source) {
    TORCH_CHECK(source == nullptr || source == this,
                "GMLake serves a MemPool from its own memory only: leave out the pool's allocator, or run the program "
                "without GMLake if it needs that memory (symmetric memory does)");
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
    torch_begin_pool(device, id,
                     [filter = std::move(filter)](void* stream) { return filter(static_cast<cudaStream_t>(stream)); });
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override { torch_end_pool(device, id); }
  void releasePool(DeviceIndex device, MempoolId_t id) override { torch_release_pool(device, id); }

  // Checkpoints of pools, for the graph trees of torch.compile.
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    const auto blocks = process_device(device).allocator.live_blocks(as_pool(id));
    size_t known = 0;
    for (const LiveBlock& block : blocks) known += expected.count(as_pointer(block.address));
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
    for (const LiveBlock& block : torch_restore_pool(device, checkpoint->pool, checkpoint->blocks))
      delta.ptrs_freed.push_back(as_pointer(block.address));
    for (const LiveBlock& block : checkpoint->blocks) {
      void* const at = as_pointer(block.address);
      delta.dataptrs_allocd.emplace_back(at, at, &delete_block, c10::Device(c10::kCUDA, device));
    }
    return delta;
  }

  // Tensors that another process uses too.
  caching::ShareableHandle shareIpcHandle(void* block) override {
    SharedBlock shared = share_block(block);
    return {shared.offset, std::move(shared.handle)};
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return open_shared(handle); }
};

}  // namespace

// Puts the bridge in the place of PyTorch's allocator, for good. Returns why that failed, or NULL.
extern "C" const char* gmlake_bridge_install() {
  static std::string failure;
  static auto* const kept = new std::shared_ptr<caching::CUDAAllocator>(std::make_shared<Bridge>());
  try {
    reclaim_with(&run_free_memory_callbacks);
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(*kept);
    c10::SetAllocator(c10::kCUDA, kept->get(), std::numeric_limits<uint8_t>::max());
    return nullptr;
  } catch (const std::exception& error) {
    failure = error.what();
    return failure.c_str();
  }
}

}  // namespace gmlake::bridge
