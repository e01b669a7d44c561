// PyTorch's expandable segments: the caching allocator, but a pool of a stream grows one segment page by page instead
// of asking for a new one each time, so that free space is one span and not many. When memory runs short, whole free
// pages anywhere in it are given back, after waiting for the stream.
#pragma once

#include "baselines/caching.h"
#include "baselines/expandable_segment.h"

namespace gmlake {

class ExpandableAllocator final : public CachingAllocator {
 public:
  ExpandableAllocator(Driver& driver, const CachingOptions& options) : CachingAllocator(driver, options) {}

 private:
  std::string_view name() const override { return "expandable"; }
  bool should_split(const Block& block, Bytes size) const override;
  Block* find(const Request& request) override;
  Block* grow(const Request& request) override;
  void release_free(BlockPool& pool) override;

  Block* find_room(const Request& request);  // the lowest free and unmapped addresses that suffice; null: none to have
  Block* add_range(const Request& request);
  bool map(Block* block, Bytes size);
  void unmap_pages(Block* block);
};

std::unique_ptr<Allocator> make_expandable(Driver& driver, const Options& options);

}  // namespace gmlake
