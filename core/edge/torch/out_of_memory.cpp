#include "edge/torch/out_of_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"
#include "edge/torch/pytorch.h"

namespace gmlake {
namespace {

struct Observers {
  std::mutex mutex;
  std::vector<OutOfMemoryObserver> all;
};
Observers& observers() {
  static auto* const only = new Observers;
  return *only;
}

std::vector<OutOfMemoryObserver> present_observers() {
  std::lock_guard lock(observers().mutex);
  return observers().all;
}

std::atomic<Reclaimer> the_reclaimer = nullptr;

struct Figures {
  int device = 0;
  Bytes asked = 0, free = 0, total = 0, allowed = 0;
  Bytes allocated = 0, active = 0, reserved = 0, largest = 0;
  Bytes whole_pages = 0;       // in free runs that any request may have
  Bytes in_pools = 0;          // free, but only for who uses a private pool
  bool larger_chunks = false;  // than a page: some of a chunk may be in use while whole pages of it are not
};

void add_free(Figures& f, const SegmentInfo& segment, const BlockInfo& block) {
  f.largest = std::max(f.largest, block.size);
  if (segment.pool) {
    f.in_pools += block.size;
    return;
  }
  const Bytes begin = round_up(block.address, page_size), end = round_down(block.address + block.size, page_size);
  f.whole_pages += end - std::min(begin, end);
}

Figures figures(const ProcessDevice& device, Bytes asked) {
  Figures f{.device = device.driver.device(), .asked = asked};
  (void)device.driver.memory_info(f.free, f.total);
  f.allowed = static_cast<Bytes>(process_fraction(f.device) * static_cast<double>(f.total));
  const Statistics statistics = device.allocator.statistics();
  f.allocated = static_cast<Bytes>(statistics.allocated_bytes.all().current);
  f.active = static_cast<Bytes>(statistics.active_bytes.all().current);
  f.reserved = static_cast<Bytes>(statistics.reserved_bytes.all().current);
  f.larger_chunks = f.reserved > static_cast<Bytes>(statistics.segment.all().current) * page_size;
  for (const SegmentInfo& segment : device.allocator.segments())
    for (const BlockInfo& block : segment.blocks)
      if (!segment.stitched && block.state == BlockInfo::State::inactive) add_free(f, segment, block);
  return f;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// As PyTorch writes it.
std::string size(Bytes bytes) {
  return bytes < KiB ? std::to_string(bytes) + " bytes" : format_bytes(bytes);
}

// What PyTorch's own message says, in its words: tools read them.
std::string usual(const Figures& f) {
  std::string text = "CUDA out of memory. Tried to allocate " + size(f.asked) + ". GPU " + std::to_string(f.device) +
                     " has a total capacity of " + size(f.total) + " of which " + size(f.free) +
                     " is free. Including non-PyTorch memory and other processes, " +
                     size(f.total - std::min(f.total, f.free)) + " is in use. ";
  if (f.allowed < f.total) text += size(f.allowed) + " allowed; ";
  return text + "Of the allocated memory " + size(f.allocated) + " is allocated by PyTorch, and " +
         size(f.reserved - std::min(f.reserved, f.allocated)) + " is reserved by PyTorch but unallocated.";
}

std::string advice(const Figures& f) {
  const std::string smaller = "; a smaller batch, activation checkpointing or offloading would have helped.";
  const Bytes allowed = f.allowed - std::min(f.allowed, f.reserved);
  const Bytes room = round_down(std::min(allowed, f.free), page_size);
  const Bytes within_reach = f.reserved - std::min(f.reserved, f.active) + room;
  if (f.asked > within_reach) {
    std::string text = " The request exceeds what is there by " + size(f.asked - within_reach);
    if (f.allowed < f.total && f.asked <= f.reserved - std::min(f.reserved, f.active) + f.free)
      return text + "; the device has that much: a larger memory fraction would have helped.";
    const Bytes others = f.total - std::min(f.total, f.free + f.reserved);
    if (others > f.asked) return text + "; " + size(others) + " are in use outside of PyTorch or by other processes.";
    return text + smaller;
  }
  if (f.asked > within_reach - std::min(within_reach, f.in_pools))
    return " Of what is free, " + size(f.in_pools) +
           " belong to private pools (MemPool, CUDA graphs); graphs that share a pool, a MemPool that is deleted "
           "after use, or one with use_on_oom=True might have helped.";
  if (f.larger_chunks && f.asked <= f.whole_pages + room)
    return " What is free lies in chunks that are partly in use; GMLAKE_CHUNK_LIMIT=2MiB might have helped.";
  const Bytes whole = f.whole_pages + f.in_pools + room;
  return " Of what is free, " + size(within_reach - std::min(within_reach, whole)) +
         " lie in pieces of less than 2 MiB, between others that are in use" + smaller;
}

std::string message(const Figures& f) {
  const double unused = f.reserved == 0 ? 0 : 1 - static_cast<double>(f.active) / static_cast<double>(f.reserved);
  return usual(f) + " GMLake: " + percent(std::max(0.0, unused)) +
         " of the reserved memory was not in use (fragmentation), the largest free run has " + size(f.largest) + "." +
         advice(f);
}

}  // namespace

void observe_out_of_memory(OutOfMemoryObserver observer) {
  std::lock_guard lock(observers().mutex);
  observers().all.push_back(std::move(observer));
}

void reclaim_with(Reclaimer reclaimer) {
  the_reclaimer = reclaimer;
}

bool reclaim() {
  const Reclaimer reclaimer = the_reclaimer;
  return reclaimer != nullptr && reclaimer();
}

void fail_out_of_memory(const ProcessDevice& device, Bytes asked) {
  const Figures f = figures(device, asked);
  pytorch::report_out_of_memory(static_cast<std::int64_t>(asked), f.allocated, f.reserved, f.device);
  for (const OutOfMemoryObserver& observer : present_observers()) observer(f.device, f.asked, f.allowed, f.free);
  pytorch::throw_out_of_memory(message(f));
}

}  // namespace gmlake
