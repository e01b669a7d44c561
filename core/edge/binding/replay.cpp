// Replay for Python: columns come in as numpy arrays without a copy, the loop runs without the interpreter's lock, and
// what it counted goes out as plain attributes and arrays.
#include "replay/replay.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>

#include "edge/binding/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Table = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

template <typename T>
std::span<const T> view(const Column<T>& column) {
  return {column.data(), column.shape(0)};
}

// A numpy array that owns its rows x columns values.
template <typename T, typename Value>
Table<T> table(std::size_t rows, std::size_t columns, Value value) {
  auto* data = new T[rows * columns + 1];
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) data[row * columns + column] = value(row, column);
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return Table<T>(data, {rows, columns}, owner);
}

// Gives Python a turn a few times a second: signals (Ctrl-C) and the caller's progress display.
std::function<void(std::uint64_t)> turn_for_python(nb::object callback) {
  using Clock = std::chrono::steady_clock;
  return [callback, last = Clock::now()](std::uint64_t fed) mutable {
    const Clock::time_point now = Clock::now();
    if (now - last < std::chrono::milliseconds(50)) return;
    last = now;
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback.is_none()) callback(fed);
  };
}

ReplayOutcome run(const Column<std::uint8_t>& kind, const Column<std::uint32_t>& id, const Column<std::int64_t>& size,
                  const Column<std::uint32_t>& stream, Allocator& allocator, const Driver& driver,
                  std::uint64_t sample_every, std::uint64_t check_every, nb::object progress, SimulatedDriver* map) {
  const TraceColumns trace{view(kind), view(id), view(size), view(stream)};
  const ReplayOptions options{sample_every, check_every, map, turn_for_python(progress)};
  nb::gil_scoped_release unlocked;
  return replay(trace, allocator, driver, options);
}

}  // namespace

void bind_replay(nb::module_& m) {
  nb::class_<ReplayOutcome>(m, "ReplayOutcome", "What a replay counted.")
      .def_ro("events", &ReplayOutcome::events)
      .def_prop_ro("peak_requested", [](const ReplayOutcome& o) { return o.facts.peak_requested; })
      .def_prop_ro("peak_active", [](const ReplayOutcome& o) { return o.facts.peak_active; })
      .def_ro("peak_reserved", &ReplayOutcome::peak_reserved)
      .def_ro("retries", &ReplayOutcome::retries)
      .def_ro("out_of_memory", &ReplayOutcome::out_of_memory)
      .def_ro("out_of_memory_message", &ReplayOutcome::out_of_memory_message)
      .def_ro("cpu_seconds", &ReplayOutcome::cpu_seconds)
      .def_prop_ro(
          "calls",
          [](const ReplayOutcome& o) {
            return table<std::uint64_t>(o.iterations.size(), call_kinds, [&](std::size_t row, std::size_t kind) {
              return o.iterations[row][kind].calls;
            });
          },
          nb::rv_policy::move, "Driver calls: a row per iteration (row 0 came before the first), a column per kind.")
      .def_prop_ro(
          "microseconds",
          [](const ReplayOutcome& o) {
            return table<double>(o.iterations.size(), call_kinds, [&](std::size_t row, std::size_t kind) {
              return o.iterations[row][kind].microseconds;
            });
          },
          nb::rv_policy::move, "Modelled driver time, laid out like calls.")
      .def_prop_ro(
          "timeline",
          [](const ReplayOutcome& o) {
            return table<std::int64_t>(o.timeline.size(), 4, [&](std::size_t row, std::size_t column) {
              const Sample& sample = o.timeline[row];
              const std::int64_t values[] = {static_cast<std::int64_t>(sample.event), sample.allocated, sample.active,
                                             sample.reserved};
              return values[column];
            });
          },
          nb::rv_policy::move, "Rows of event, allocated, active, reserved.")
      .def_prop_ro(
          "pieces",
          [](const ReplayOutcome& o) {
            return table<std::int64_t>(o.map.pieces.size(), 3, [&](std::size_t row, std::size_t column) {
              const auto& [id, piece] = o.map.pieces[row];
              const Bytes values[] = {id, piece.place, piece.size};
              return static_cast<std::int64_t>(values[column]);
            });
          },
          nb::rv_policy::move, "Rows of allocation, place, size: the physical memory of every block, piece by piece.")
      .def_prop_ro(
          "held",
          [](const ReplayOutcome& o) {
            return table<std::int64_t>(o.map.held.size(), 3, [&](std::size_t row, std::size_t column) {
              const auto& [event, change] = o.map.held[row];
              const auto size = static_cast<std::int64_t>(change.piece.size);
              const std::int64_t values[] = {static_cast<std::int64_t>(event),
                                             static_cast<std::int64_t>(change.piece.place),
                                             change.taken ? size : -size};
              return values[column];
            });
          },
          nb::rv_policy::move, "Rows of event, place, size: physical memory taken, or given back if below zero.");

  m.def(
      "replay", &run, "kind"_a, "id"_a, "size"_a, "stream"_a, "allocator"_a, "driver"_a, "sample_every"_a = 0,
      "check_every"_a = 0, "progress"_a = nb::none(), "map"_a = nb::none(),
      "Feed a trace to an allocator. progress(fed) is called now and then; what it raises ends the replay. map is the "
      "driver if a memory map is wanted.");
  m.def(
      "trace_peaks",
      [](const Column<std::uint8_t>& kind, const Column<std::uint32_t>& id, const Column<std::int64_t>& size,
         const Column<std::uint32_t>& stream) {
        const TraceFacts facts = examine({view(kind), view(id), view(size), view(stream)});
        return nb::make_tuple(facts.peak_requested, facts.peak_active);
      },
      "kind"_a, "id"_a, "size"_a, "stream"_a,
      "Peak requested and peak active bytes of a trace, whatever the allocator.");
}

}  // namespace gmlake
