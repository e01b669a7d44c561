// The allocator interface and the catalogue for Python. Whatever may wait for the allocator's lock or for the device
// runs without the interpreter's lock.
#include "allocator/allocator.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/unordered_set.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "baselines/catalogue.h"
#include "edge/binding/bind.h"
#include "edge/binding/statistics.h"
#include "edge/process.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

using Number = const nb::int_&;
using Pool = std::pair<std::uint64_t, std::uint64_t>;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

PoolId pool_id(const Pool& pool) {
  return {pool.first, pool.second};
}

std::string_view name(BlockInfo::State state) {
  switch (state) {
    case BlockInfo::State::active_allocated:
      return "active_allocated";
    case BlockInfo::State::active_pending_free:
      return "active_pending_free";
    case BlockInfo::State::lent:
      return "lent";
    case BlockInfo::State::inactive:
      break;
  }
  return "inactive";
}

std::string_view name(OptionRow::Kind kind) {
  switch (kind) {
    case OptionRow::Kind::bytes:
      return "bytes";
    case OptionRow::Kind::real:
      return "real";
    case OptionRow::Kind::integer:
      return "integer";
    case OptionRow::Kind::boolean:
      return "boolean";
    case OptionRow::Kind::text:
      break;
  }
  return "text";
}

// The filter is a set of streams, not a Python function: it is asked under the allocator's lock.
void begin_pool(Allocator& allocator, const Pool& pool, std::optional<std::unordered_set<Stream>> streams) {
  if (streams)
    allocator.begin_pool(pool_id(pool),
                         [chosen = std::move(*streams)](Stream stream) { return chosen.contains(stream); });
  else
    allocator.begin_pool(pool_id(pool), [](Stream) { return true; });
}

void bind_segments(nb::module_& m) {
  nb::class_<BlockInfo>(m, "BlockInfo", "One block of a segment.")
      .def_ro("address", &BlockInfo::address)
      .def_ro("size", &BlockInfo::size)
      .def_ro("requested", &BlockInfo::requested)
      .def_prop_ro("state", [](const BlockInfo& block) { return name(block.state); });
  nb::class_<SegmentInfo>(m, "SegmentInfo", "A contiguous piece of reserved memory and its blocks in address order.")
      .def_ro("address", &SegmentInfo::address)
      .def_ro("size", &SegmentInfo::size)
      .def_ro("stream", &SegmentInfo::stream)
      .def_prop_ro("kind", [](const SegmentInfo& s) { return s.kind == PoolKind::small ? "small" : "large"; })
      .def_prop_ro("pool", [](const SegmentInfo& s) { return Pool(s.pool.capture, s.pool.user); })
      .def_ro("expandable", &SegmentInfo::expandable)
      .def_ro("stitched", &SegmentInfo::stitched)
      .def_ro("blocks", &SegmentInfo::blocks);
}

void bind_checkpoints(nb::module_& m) {
  nb::class_<LiveBlock>(m, "LiveBlock", "A block in use, as a checkpoint of its pool remembers it.")
      .def_ro("address", &LiveBlock::address)
      .def_ro("size", &LiveBlock::size)
      .def_ro("requested", &LiveBlock::requested)
      .def_ro("stream", &LiveBlock::stream);
}

void bind_journal(nb::module_& m) {
  nb::class_<JournalEntry>(m, "JournalEntry", "One event of the journal.")
      .def_prop_ro("action", [](const JournalEntry& entry) { return to_string(entry.action); })
      .def_ro("address", &JournalEntry::address)
      .def_ro("size", &JournalEntry::size)
      .def_ro("stream", &JournalEntry::stream)
      .def_prop_ro("pool", [](const JournalEntry& entry) { return Pool(entry.pool.capture, entry.pool.user); })
      .def_ro("time_us", &JournalEntry::time_us, "Microseconds since the epoch.")
      .def_ro("context", &JournalEntry::context, "What the thread was doing, in the client's own numbers; 0: unknown.")
      .def_prop_ro(
          "remark",
          [](const JournalEntry& entry) { return entry.remark == nullptr ? std::string_view() : *entry.remark; },
          "What the thread said of all it did; empty: nothing.");
}

void bind_interface(nb::module_& m) {
  nb::class_<Allocator>(m, "Allocator", "Serves one device; may be used from any thread.")
      .def(
          "allocate",
          [](Allocator& a, Number size, Number stream) {
            const Bytes bytes = number(size, "size");
            const Stream on = number(stream, "stream");
            nb::gil_scoped_release release;
            return a.allocate(bytes, on);
          },
          "size"_a, "stream"_a = 0, "The address of a new block; 0 for a size of 0.")
      .def(
          "release",
          [](Allocator& a, Number address) {
            const Address at = number(address, "address");
            nb::gil_scoped_release release;
            a.release(at);
          },
          "address"_a)
      .def(
          "record_stream",
          [](Allocator& a, Number address, Number stream) {
            const Address at = number(address, "address");
            const Stream on = number(stream, "stream");
            nb::gil_scoped_release release;
            a.record_stream(at, on);
          },
          "address"_a, "stream"_a, "The block is also used on this stream: wait for it before reuse.")
      .def("begin_pool", &begin_pool, "pool"_a, "streams"_a = nb::none(), Unlocked(),
           "From now on, allocations on these streams (None: all) come from the pool.")
      .def(
          "end_pool", [](Allocator& a, const Pool& pool) { a.end_pool(pool_id(pool)); }, "pool"_a, Unlocked())
      .def(
          "release_pool", [](Allocator& a, const Pool& pool) { a.release_pool(pool_id(pool)); }, "pool"_a, Unlocked())
      .def(
          "retain_pool", [](Allocator& a, const Pool& pool) { a.retain_pool(pool_id(pool)); }, "pool"_a, Unlocked(),
          "Make the pool if need be, and add one use.")
      .def(
          "pool_uses", [](const Allocator& a, const Pool& pool) { return a.pool_uses(pool_id(pool)); }, "pool"_a,
          Unlocked())
      .def(
          "trim_pool", [](Allocator& a, const Pool& pool) { a.trim_pool(pool_id(pool)); }, "pool"_a, Unlocked(),
          "Give the memory of a pool back that has no uses.")
      .def(
          "share_pool", [](Allocator& a, const Pool& pool, bool on) { a.share_pool(pool_id(pool), on); }, "pool"_a,
          "on"_a, Unlocked(), "Let its free memory serve requests that would fail otherwise.")
      .def(
          "live_blocks", [](const Allocator& a, const Pool& pool) { return a.live_blocks(pool_id(pool)); }, "pool"_a,
          Unlocked(), "A checkpoint of the pool.")
      .def(
          "restore_pool",
          [](Allocator& a, const Pool& pool, const std::vector<LiveBlock>& blocks) {
            return a.restore_pool(pool_id(pool), blocks);
          },
          "pool"_a, "blocks"_a, Unlocked(), "Back to a checkpoint; returns the blocks that were released.")
      .def("trim", &Allocator::trim, Unlocked(), "Give back what can be given back.")
      .def(
          "set_limit",
          [](Allocator& a, Number reserved) {
            const Bytes limit = number(reserved, "limit");
            nb::gil_scoped_release release;
            a.set_limit(limit);
          },
          "reserved"_a, "Never reserve more than this many bytes.")
      .def(
          "block_size",
          [](const Allocator& a, Number address) {
            const Address at = number(address, "address");
            nb::gil_scoped_release release;
            return a.block_size(at);
          },
          "address"_a, "Of a block in use; 0 for any other address.")
      .def(
          "statistics",
          [](const Allocator& a) {
            std::optional<Statistics> statistics;
            {
              nb::gil_scoped_release release;
              statistics = a.statistics();
            }
            return as_dict(*statistics);
          },
          "Nested as torch.cuda.memory_stats_as_nested_dict; our own counters are under 'gmlake'.")
      .def("reset_peaks", &Allocator::reset_peaks, Unlocked())
      .def("reset_accumulated", &Allocator::reset_accumulated, Unlocked())
      .def("segments", &Allocator::segments, Unlocked())
      .def(
          "start_journal",
          [](Allocator& a, Number entries) {
            const std::uint64_t kept = number(entries, "number of entries");
            nb::gil_scoped_release release;
            a.start_journal(kept);
          },
          "entries"_a, "Keep the latest events from now on; 0 turns the journal off.")
      .def("journal", &Allocator::journal, Unlocked(), "The latest events, oldest first.")
      .def("check", &Allocator::check, Unlocked(), "Raise BrokenInvariant if the books do not balance.");
}

void bind_catalogue(nb::module_& m) {
  nb::class_<OptionRow>(m, "OptionRow", "One option of an allocator.")
      .def_ro("name", &OptionRow::name)
      .def_prop_ro("kind", [](const OptionRow& row) { return name(row.kind); })
      .def_ro("fallback", &OptionRow::fallback, "The default, as it would be written.")
      .def_ro("meaning", &OptionRow::meaning);
  nb::class_<CatalogueRow>(m, "CatalogueRow", "One allocator by name.")
      .def_ro("name", &CatalogueRow::name)
      .def_ro("meaning", &CatalogueRow::meaning)
      .def_prop_ro("options", [](const CatalogueRow& row) {
        return std::vector<OptionRow>(row.options.begin(), row.options.end());
      });
  m.def("catalogue", [] {
    const auto rows = catalogue();
    return std::vector<CatalogueRow>(rows.begin(), rows.end());
  });
  m.def("make_allocator", &make_allocator, "spec"_a, "driver"_a, nb::keep_alive<0, 2>(), Unlocked(),
        "An allocator by NAME or NAME:option=value,option=value.");
}

void bind_process(nb::module_& m) {
  m.def(
      "process_allocator", [](int device) { return &process_device(device).allocator; }, "device"_a = 0,
      nb::rv_policy::reference, Unlocked(), "The allocator of a device that PyTorch and Python share.");
  m.def(
      "process_driver", [](int device) { return &process_device(device).driver; }, "device"_a = 0,
      nb::rv_policy::reference, Unlocked(), "The driver below process_allocator.");
}

}  // namespace

void bind_allocator(nb::module_& m) {
  bind_segments(m);
  bind_checkpoints(m);
  bind_journal(m);
  bind_interface(m);
  bind_catalogue(m);
  bind_process(m);
}

}  // namespace gmlake
