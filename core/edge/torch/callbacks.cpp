#include "edge/torch/callbacks.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "base/error.h"
#include "base/units.h"
#include "edge/c_api.h"
#include "edge/process.h"
#include "edge/torch/history.h"
#include "edge/torch/out_of_memory.h"
#include "edge/torch/pytorch.h"
#include "edge/torch/rival.h"

namespace gmlake {
namespace {

Address as_address(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}
Stream as_stream(const void* stream) {
  return reinterpret_cast<Stream>(stream);
}

void report(const Allocator& allocator, void* block, std::int64_t bytes, int device) {
  const Totals totals = allocator.totals();
  pytorch::report(block, bytes, totals.allocated, totals.reserved, device);
}

// Whether anybody wants to know of single blocks.
bool watched() {
  return history::watching.load(std::memory_order_relaxed) || rival::running.load(std::memory_order_relaxed);
}

Address allocate(const ProcessDevice& served, std::size_t size, void* stream) {
  for (const bool last : {false, true}) {
    try {
      // To PyTorch more than anybody can ask for is as much out of memory.
      return served.allocator.allocate(std::min(size, largest_request), as_stream(stream));
    } catch (const OutOfMemory&) {
      // Answered below, where the exception is gone and no lock is held.
    }
    if (last || !reclaim()) break;
  }
  fail_out_of_memory(served, size);
}

Address allocate_watched(const ProcessDevice& served, std::size_t size, void* stream) {
  const std::uint64_t context = history::gather_for_allocation();
  const JournalContext told(history::told_to_journal(context));
  const Address block = allocate(served, size, stream);
  history::remember(block, context);
  if (rival::running) rival::allocate(served, block, size, as_stream(stream));
  return block;
}

void forget(Address block, int device) {
  history::forget(block);
  if (rival::running) rival::release(device, block);
}

void release(Allocator& allocator, void* block, int device) {
  if (!watched()) [[likely]] {
    allocator.release(as_address(block));
    return;
  }
  const JournalContext told(history::gather_for_free(as_address(block)));
  forget(as_address(block), device);  // before somebody else gets the address
  allocator.release(as_address(block));
}

// A free that fails leaves the block where it is. That is a defect worth a line, but not the end of the process.
void complain(const char* what) noexcept {
  static std::atomic<bool> once = false;
  if (!once.exchange(true)) std::fprintf(stderr, "gmlake: a block could not be freed: %s\n", what);
}

}  // namespace

void torch_begin_pool(int device, TorchPool pool, TorchFilter filter) {
  const ProcessDevice served = process_device(device);
  served.allocator.begin_pool({pool.first, pool.second},
                              [filter](Stream stream) { return filter(reinterpret_cast<void*>(stream)); });
  if (rival::running) rival::begin_pool(served, pool, filter);
}

void torch_end_pool(int device, TorchPool pool) {
  if (Allocator* const allocator = process_allocator_if_used(device)) allocator->end_pool({pool.first, pool.second});
  if (rival::running) rival::end_pool(device, pool);
}

// Called by the destructor of a graph, also at the end of the process.
void torch_release_pool(int device, TorchPool pool) {
  try {
    if (Allocator* const allocator = process_allocator_if_used(device))
      allocator->release_pool({pool.first, pool.second});
    if (rival::running) rival::release_pool(device, pool);
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

// Profilers do not hear of it: the blocks keep their contents, and nothing is asked of the device.
std::vector<LiveBlock> torch_restore_pool(int device, TorchPool pool, const std::vector<LiveBlock>& blocks) {
  const ProcessDevice served = process_device(device);
  std::vector<LiveBlock> released = served.allocator.restore_pool({pool.first, pool.second}, blocks);
  if (!watched()) return released;
  for (const LiveBlock& block : released) forget(block.address, device);
  if (rival::running)
    for (const LiveBlock& block : blocks) rival::allocate(served, block.address, block.requested, block.stream);
  return released;
}

}  // namespace gmlake

using namespace gmlake;

void* gmlake_torch_allocate(std::size_t size, int device, void* stream) {
  if (size == 0) return nullptr;
  const ProcessDevice served = process_device(device);
  const Address address = watched() ? allocate_watched(served, size, stream) : allocate(served, size, stream);
  void* const block = reinterpret_cast<void*>(address);
  if (pytorch::wants_reports())
    report(served.allocator, block, static_cast<std::int64_t>(round_up(size, unit)), device);
  return block;
}

void gmlake_torch_free(void* block, std::size_t size, int device, void*) {
  if (block == nullptr) return;
  Allocator* const allocator = process_allocator_if_used(device);
  if (allocator == nullptr) return;  // a forked child has none, and the parent's memory is not its own to free
  try {
    release(*allocator, block, device);
    if (pytorch::wants_reports()) report(*allocator, block, -static_cast<std::int64_t>(round_up(size, unit)), device);
  } catch (const std::exception& error) {
    complain(error.what());
  } catch (...) {
    complain("unknown error");
  }
}

void gmlake_torch_delete(void* block) {
  if (block == nullptr) return;
  int device = 0;
  Allocator* const allocator = process_allocator_of(as_address(block), device);
  if (allocator == nullptr) return;
  gmlake_torch_free(block, pytorch::wants_reports() ? allocator->block_size(as_address(block)) : 0, device, nullptr);
}

void gmlake_torch_init(int device_count) {
  if (gmlake_init(device_count) != GMLAKE_SUCCESS) throw InvalidArgument(gmlake_last_error());
}

void gmlake_torch_empty_cache() {
  for (int device = 0; device < most_devices; ++device)
    if (Allocator* const allocator = process_allocator_if_used(device)) allocator->trim();
  if (rival::running) rival::trim();
}

void gmlake_torch_set_memory_fraction(double fraction, int device) {
  set_process_fraction(device, fraction);
}

// PyTorch wants the segment; a foreign address is its own base.
void* gmlake_torch_base_allocation(void* address, std::size_t* size) {
  const Address at = as_address(address);
  for (int device = 0; device < most_devices; ++device) {
    const Allocator* const allocator = process_allocator_if_used(device);
    if (allocator == nullptr) continue;
    for (const SegmentInfo& segment : allocator->segments()) {
      if (at < segment.address || at >= segment.address + segment.size) continue;
      if (size != nullptr) *size = segment.size;
      return reinterpret_cast<void*>(segment.address);
    }
  }
  return address;
}

// PyTorch also passes memory that is not ours, which its own allocator ignores.
void gmlake_torch_record_stream(void* block, void* stream) {
  if (block == nullptr) return;
  for (int device = 0; device < most_devices; ++device) {
    Allocator* const allocator = process_allocator_if_used(device);
    if (allocator == nullptr) continue;
    try {
      allocator->record_stream(as_address(block), as_stream(stream));
      if (rival::running) rival::record_stream(device, as_address(block), as_stream(stream));
      return;
    } catch (const InvalidArgument&) {
      continue;
    }
  }
}
