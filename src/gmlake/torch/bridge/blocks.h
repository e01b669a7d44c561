// Blocks as PyTorch hands them around: how one is made and deleted over the bridge, with what PyTorch wants to hear of
// that besides.
#pragma once

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "edge/process.h"
#include "edge/torch/callbacks.h"

namespace gmlake::bridge {

using c10::DeviceIndex;

inline DeviceIndex current_device() {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
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
inline UsedElsewhere& used_elsewhere = *new UsedElsewhere;  // for ever: blocks are freed until the process has ended

// What frees every block. PyTorch compares it to tell our blocks from others.
inline void delete_block(void* block) {
  if (block == nullptr) return;
  used_elsewhere.wait_for(block);
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr))
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
  gmlake_torch_delete(block);
}

inline void* new_block(size_t size, DeviceIndex device, cudaStream_t stream) {
  void* const block = gmlake_torch_allocate(size, device, stream);
  if (const auto* trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr && block != nullptr))
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
  return block;
}

// Is it a block in use? A forked child, which has no allocator, lets go of its parent's blocks without a word.
inline bool may_be_deleted(void* block) {
  const auto at = reinterpret_cast<Address>(block);
  bool used = false;
  for (int device = 0; device < most_devices; ++device) {
    const auto* const allocator = process_allocator_if_used(device);
    used = used || allocator != nullptr;
    if (allocator != nullptr && allocator->block_size(at) != 0) return true;
  }
  return !used;
}

}  // namespace gmlake::bridge
