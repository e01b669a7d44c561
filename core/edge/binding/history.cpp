// What a recorded history needs of the caching allocator beyond the interface: to start from segments as they stood,
// and to be put right where it decided otherwise.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "base/error.h"
#include "baselines/caching.h"
#include "edge/binding/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

using RecordedBlock = std::tuple<Bytes, Bytes, bool>;  // size, requested, active

CachingAllocator& caching(Allocator& allocator) {
  if (typeid(allocator) != typeid(CachingAllocator))
    throw InvalidArgument("only the allocator 'caching' can continue a recorded history");
  return static_cast<CachingAllocator&>(allocator);
}

void adopt(Allocator& allocator, Address address, Stream stream, std::string_view kind,
           const std::vector<RecordedBlock>& blocks) {
  using State = BlockInfo::State;
  SegmentInfo segment;
  segment.address = address;
  segment.stream = stream;
  segment.kind = kind == "small" ? PoolKind::small : PoolKind::large;
  for (const auto& [size, requested, active] : blocks) {
    const State state = active ? State::active_allocated : State::inactive;
    segment.blocks.push_back({address + segment.size, size, requested, state});
    segment.size += size;
  }
  caching(allocator).adopt({&segment, 1});
}

}  // namespace

void bind_history(nb::module_& m) {
  m.def("adopt", &adopt, "allocator"_a, "address"_a, "stream"_a, "kind"_a, "blocks"_a,
        "Take over a segment as it stood, from its blocks' (size, requested, active); the driver must hand out its "
        "address next.");
  m.def(
      "place",
      [](Allocator& allocator, Address address, Bytes size, Stream stream) {
        return caching(allocator).place(address, size, stream);
      },
      "allocator"_a, "address"_a, "size"_a, "stream"_a, "Allocate at an address; false if no free block is there.");
  m.def(
      "give_back", [](Allocator& allocator, Address segment) { return caching(allocator).give_back(segment); },
      "allocator"_a, "segment"_a, "Give a wholly free segment back to the driver; false if there is none.");
}

}  // namespace gmlake
