// Pages of memory for small blocks: each is one chunk of its own, so that no small block ever keeps a large chunk from
// moving. A page that is no longer needed stays mapped as a spare until trim. What is inside a page is not known here.
#pragma once

#include <vector>

#include "pool/lake.h"
#include "pool/supply.h"

namespace gmlake {

class Slabs {
 public:
  Slabs(Supply& supply, Lake& lake, PoolId pool, Address range, Bytes size)
      : supply_(supply), lake_(lake), pool_(pool), range_(range), size_(size) {}
  ~Slabs();  // every page is given back, used or not: the device must be idle

  Address range() const { return range_; }
  bool contains(Address address) const { return address - range_ < size_; }

  Address take(Stream stream);  // 0: no room
  bool take_at(Address page);   // a spare; the caller knows that nobody uses it. False: it is none
  void give_back(Address page, const Clock& clock);
  void trim();  // destroys the spares; the device must be idle

  template <typename Visit>
  void each_spare(Visit visit) const {
    for (std::size_t spare : spares_) visit(pages_[spare].at, page_size);
  }
  Bytes bytes() const { return (pages_.size() - vacant_.size()) * page_size; }
  void check() const;

 private:
  struct Page {
    Address at = 0;
    Chunk* chunk = nullptr;
    bool used = false;
    Clock clock;  // of the last uses, while it is a spare
  };
  bool shared() const { return !pool_; }
  std::size_t number(Address at) const { return (at - range_) / page_size; }
  bool discard(Page& page);

  Supply& supply_;
  Lake& lake_;
  const PoolId pool_;
  const Address range_;
  const Bytes size_;
  std::vector<Page> pages_;          // by their place in the range
  std::vector<std::size_t> spares_;  // mapped, not used
  std::vector<std::size_t> vacant_;  // places without a chunk
};

}  // namespace gmlake
