// A segment that grows: a range of addresses large enough for the whole device, in which pages (one handle each) are
// mapped as needed and unmapped when memory runs short. It knows pages, not blocks.
#pragma once

#include <vector>

#include "baselines/caching_block.h"

namespace gmlake {

struct ExpandableSegment final : Segment {
  ExpandableSegment(Address range, Bytes range_size, Bytes its_page, Stream its_stream, BlockPool& its_pool)
      : Segment(range, range_size, its_stream, its_pool), page(its_page) {}

  bool expandable() const override { return true; }
  Status give_back(Driver& driver) override;  // unmaps what is mapped and frees the range

  // Maps pages from a page's beginning on, at least so many bytes; returns the bytes mapped, or 0 with nothing changed
  // when the driver has not enough memory.
  Bytes map(Driver& driver, Address at, Bytes bytes);
  // The whole pages of a span, [begin, end); false: there are none.
  bool whole_pages(Address at, Bytes bytes, Address& begin, Address& end) const;
  Status unmap(Driver& driver, Address begin, Address end);

  Bytes page;
  std::vector<Handle> handles;  // by page, up to the last that was ever mapped; 0 where nothing is

 private:
  std::size_t page_at(Address at) const { return (at - address) / page; }
};

}  // namespace gmlake
