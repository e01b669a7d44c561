// The nouns every other file uses. A *chunk* is one driver handle of physical memory, a *range* a reserved span of
// addresses, a *mapping* chunks mapped into a range. An *extent* is a span of an arena; a *pBlock* is an extent that is
// handed out, an *sBlock* a second, contiguous run of addresses over chunks that keep their home elsewhere.
// This file defines types only: no behaviour lives here.
#pragma once

#include <compare>
#include <cstdint>

namespace gmlake {

using Bytes = std::uint64_t;    // a size; signed differences are spelled std::int64_t
using Address = std::uint64_t;  // a device virtual address; 0 is never handed out
using Handle = std::uint64_t;   // what the driver calls a piece of physical memory
using Stream = std::uint64_t;   // the driver's stream handle as a number; 0 is the default stream
using Event = std::uint64_t;    // the driver's event handle as a number

struct Span {  // of addresses
  Address at;
  Bytes size;
};

// Names a private pool, as PyTorch does: (made by a capture, made by the user). {0, 0} is the ordinary pool.
struct PoolId {
  std::uint64_t capture = 0;
  std::uint64_t user = 0;
  auto operator<=>(const PoolId&) const = default;
  explicit operator bool() const { return capture != 0 || user != 0; }
};

}  // namespace gmlake
