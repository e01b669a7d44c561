// The drivers for Python: every call of the contract, with its status as a value rather than an exception, because
// most callers are tests that want to see the refusal.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "driver/cuda.h"
#include "driver/simulated.h"
#include "edge/binding/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

using Number = const nb::int_&;

// A call of the device that takes numbers: converted while the interpreter's lock is held, made without it.
template <typename Call, typename... Numbers>
Status unlocked(Call call, Numbers... numbers) {
  nb::gil_scoped_release release;
  return call(numbers...);
}

// A call that hands out a number, which is 0 when it fails.
template <typename Call>
std::pair<Status, std::uint64_t> handing_out(Call call) {
  nb::gil_scoped_release release;
  std::uint64_t value = 0;
  const Status status = call(value);
  return {status, value};
}

Call call_named(std::string_view name) {
  std::string known;
  for (std::size_t kind = 0; kind < call_kinds; ++kind) {
    const std::string_view candidate = to_string(static_cast<Call>(kind));
    if (candidate == name) return static_cast<Call>(kind);
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  throw InvalidArgument("'" + std::string(name) + "' is no call of the driver; the calls are " + known);
}

nb::dict counts(const Driver& driver) {
  const CallCounts all = driver.counts();
  nb::dict result;
  for (std::size_t kind = 0; kind < call_kinds; ++kind) {
    const std::string_view name = to_string(static_cast<Call>(kind));
    result[nb::str(name.data(), name.size())] = nb::make_tuple(all[kind].calls, all[kind].microseconds);
  }
  return result;
}

void bind_contract(nb::module_& m) {
  nb::class_<Driver>(m, "Driver", "What an allocator may ask of a device. Calls return a status, and what they made.")
      .def_prop_ro("device", &Driver::device)
      .def_prop_ro("granularity", &Driver::granularity)
      .def(
          "reserve",
          [](Driver& d, Number size) {
            return handing_out([&, n = number(size, "size")](Address& range) { return d.reserve(n, range); });
          },
          "size"_a)
      .def(
          "free_range",
          [](Driver& d, Number range, Number size) {
            return unlocked([&](Address at, Bytes n) { return d.free_range(at, n); }, number(range, "address"),
                            number(size, "size"));
          },
          "range"_a, "size"_a)
      .def(
          "create",
          [](Driver& d, Number size) {
            return handing_out([&, n = number(size, "size")](Handle& handle) { return d.create(n, handle); });
          },
          "size"_a)
      .def(
          "create_run",
          [](Driver& d, Number size, std::uint16_t count) {
            std::vector<Handle> handles(count);
            std::size_t done = 0;
            const Status status = unlocked([&](Bytes n) { return d.create(n, handles, done); }, number(size, "size"));
            handles.resize(done);
            return std::pair(status, handles);
          },
          "size"_a, "count"_a)
      .def(
          "map_run",
          [](Driver& d, Number at, Number size, const std::vector<nb::int_>& numbers) {
            std::vector<Handle> handles;
            for (Number handle : numbers) handles.push_back(number(handle, "handle"));
            std::size_t done = 0;
            const Status status = unlocked([&](Address a, Bytes n) { return d.map(a, n, handles, done); },
                                           number(at, "address"), number(size, "size"));
            return std::pair(status, done);
          },
          "at"_a, "size"_a, "handles"_a)
      .def(
          "release",
          [](Driver& d, Number handle) {
            return unlocked([&](Handle h) { return d.release(h); }, number(handle, "handle"));
          },
          "handle"_a)
      .def(
          "map",
          [](Driver& d, Number at, Number size, Number handle) {
            return unlocked([&](Address a, Bytes n, Handle h) { return d.map(a, n, h); }, number(at, "address"),
                            number(size, "size"), number(handle, "handle"));
          },
          "at"_a, "size"_a, "handle"_a)
      .def(
          "unmap",
          [](Driver& d, Number at, Number size) {
            return unlocked([&](Address a, Bytes n) { return d.unmap(a, n); }, number(at, "address"),
                            number(size, "size"));
          },
          "at"_a, "size"_a)
      .def(
          "set_access",
          [](Driver& d, Number at, Number size) {
            return unlocked([&](Address a, Bytes n) { return d.set_access(a, n); }, number(at, "address"),
                            number(size, "size"));
          },
          "at"_a, "size"_a)
      .def(
          "allocate",
          [](Driver& d, Number size) {
            return handing_out([&, n = number(size, "size")](Address& at) { return d.allocate(n, at); });
          },
          "size"_a)
      .def(
          "free",
          [](Driver& d, Number at) { return unlocked([&](Address a) { return d.free(a); }, number(at, "address")); },
          "at"_a)
      .def(
          "memory_info",
          [](Driver& d) {
            nb::gil_scoped_release release;
            Bytes free = 0, total = 0;
            const Status status = d.memory_info(free, total);
            return std::make_tuple(status, free, total);
          },
          "Status, free and total bytes.")
      .def("create_event", [](Driver& d) { return handing_out([&](Event& event) { return d.create_event(event); }); })
      .def(
          "destroy_event",
          [](Driver& d, Number event) {
            return unlocked([&](Event e) { return d.destroy_event(e); }, number(event, "event"));
          },
          "event"_a)
      .def(
          "record",
          [](Driver& d, Number event, Number stream) {
            return unlocked([&](Event e, Stream s) { return d.record(e, s); }, number(event, "event"),
                            number(stream, "stream"));
          },
          "event"_a, "stream"_a)
      .def(
          "query",
          [](Driver& d, Number event) { return unlocked([&](Event e) { return d.query(e); }, number(event, "event")); },
          "event"_a)
      .def(
          "wait",
          [](Driver& d, Number stream, Number event) {
            return unlocked([&](Stream s, Event e) { return d.wait(s, e); }, number(stream, "stream"),
                            number(event, "event"));
          },
          "stream"_a, "event"_a)
      .def(
          "synchronize_device", [](Driver& d) { return unlocked([&] { return d.synchronize_device(); }); },
          "Wait until all work of every stream has finished.")
      .def(
          "synchronize",
          [](Driver& d, Number event) {
            return unlocked([&](Event e) { return d.synchronize(e); }, number(event, "event"));
          },
          "event"_a)
      .def(
          "is_capturing",
          [](Driver& d, Number stream) {
            bool capturing = false;
            const Status status = d.is_capturing(number(stream, "stream"), capturing);
            return std::make_pair(status, capturing);
          },
          "stream"_a)
      .def("counts", &counts, "Calls and microseconds by kind.");
}

void make_simulated(SimulatedDriver* self, const std::optional<nb::int_>& capacity, Number granularity,
                    Number address_space, std::string_view cost, int device) {
  SimulatedOptions options;
  if (capacity) options.capacity = number(*capacity, "capacity");
  options.granularity = number(granularity, "granularity");
  options.address_space = number(address_space, "address space");
  options.cost = cost_table(cost);
  options.device = device;
  new (self) SimulatedDriver(options);
}

void bind_simulated(nb::module_& m) {
  const SimulatedOptions defaults;
  nb::class_<SimulatedDriver, Driver>(m, "SimulatedDriver", "A device made of book-keeping; no capacity: no limit.")
      .def("__init__", &make_simulated, nb::kw_only(), "capacity"_a = nb::none(),
           "granularity"_a = defaults.granularity, "address_space"_a = defaults.address_space,
           "cost_table"_a = defaults.cost.name, "device"_a = defaults.device)
      .def(
          "fail",
          [](SimulatedDriver& d, std::string_view call, Number nth, Status status, Number times) {
            d.fail(call_named(call), number(nth, "call number"), status, number(times, "count"));
          },
          "call"_a, "nth"_a, "status"_a = Status::out_of_memory, "times"_a = 1,
          "Make the nth call of this kind from now (1: the next) fail, and the times - 1 after it.")
      .def("clear_faults", &SimulatedDriver::clear_faults)
      .def("lose", &SimulatedDriver::lose, "From now on every call fails.")
      .def(
          "hold", [](SimulatedDriver& d, Number stream) { d.hold(number(stream, "stream")); }, "stream"_a,
          "Work issued on the stream from now on does not finish until finish(stream).")
      .def(
          "finish", [](SimulatedDriver& d, Number stream) { d.finish(number(stream, "stream")); }, "stream"_a)
      .def(
          "set_capturing",
          [](SimulatedDriver& d, Number stream, bool capturing) {
            d.set_capturing(number(stream, "stream"), capturing);
          },
          "stream"_a, "capturing"_a)
      .def(
          "capture_at_next_call",
          [](SimulatedDriver& d, Number stream) { d.capture_at_next_call(number(stream, "stream")); }, "stream"_a,
          "The stream captures from its next record or wait on, as if another thread had begun it just before.")
      .def("hand_out", &SimulatedDriver::hand_out, "addresses"_a, "The next allocations get these addresses.")
      .def("hand_out_ranges", &SimulatedDriver::hand_out_ranges, "addresses"_a, "The next ranges get these addresses.")
      .def("keep_places", &SimulatedDriver::keep_places, "For memory maps: physical memory has a place from now on.")
      .def_prop_ro("physical_bytes", &SimulatedDriver::physical_bytes)
      .def_prop_ro("handles", &SimulatedDriver::handles)
      .def_prop_ro("mappings", &SimulatedDriver::mappings)
      .def_prop_ro("ranges", &SimulatedDriver::ranges)
      .def_prop_ro("events", &SimulatedDriver::events)
      .def(
          "accessible",
          [](const SimulatedDriver& d, Number at, Number size) {
            return d.accessible(number(at, "address"), number(size, "size"));
          },
          "at"_a, "size"_a)
      .def(
          "handle_at", [](const SimulatedDriver& d, Number at) { return d.handle_at(number(at, "address")); }, "at"_a,
          "The handle mapped at the address, or 0.")
      .def(
          "offset_at", [](const SimulatedDriver& d, Number at) { return d.offset_at(number(at, "address")); }, "at"_a,
          "Where in the handle the address lies; 0 when nothing is mapped there.");
}

}  // namespace

void bind_driver(nb::module_& m) {
  nb::enum_<Status>(m, "Status")
      .value("success", Status::success)
      .value("out_of_memory", Status::out_of_memory)
      .value("invalid_value", Status::invalid_value)
      .value("not_supported", Status::not_supported)
      .value("not_ready", Status::not_ready)
      .value("deinitialized", Status::deinitialized)
      .value("unknown", Status::unknown);
  nb::list kinds;
  for (std::size_t kind = 0; kind < call_kinds; ++kind) kinds.append(to_string(static_cast<Call>(kind)));
  m.attr("CALL_KINDS") = nb::tuple(kinds);

  bind_contract(m);
  bind_simulated(m);
  nb::class_<CudaDriver, Driver>(m, "CudaDriver", "A real device, through libcuda.so.1.")
      .def(nb::init<int>(), "device"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def_static("device_count", &CudaDriver::device_count);

  nb::class_<CostTable>(m, "CostTable", "Modelled microseconds per driver call.")
      .def_ro("name", &CostTable::name)
      .def_ro("source", &CostTable::source)
      .def_ro("reserve", &CostTable::reserve)
      .def_ro("create", &CostTable::create)
      .def_ro("create_per_mib", &CostTable::create_per_mib)
      .def_ro("map", &CostTable::map)
      .def_ro("access", &CostTable::access)
      .def_ro("access_per_mib", &CostTable::access_per_mib)
      .def_ro("access_further", &CostTable::access_further)
      .def_ro("unmap", &CostTable::unmap)
      .def_ro("release", &CostTable::release)
      .def_ro("free_range", &CostTable::free_range)
      .def_ro("allocate", &CostTable::allocate)
      .def_ro("allocate_per_mib", &CostTable::allocate_per_mib)
      .def_ro("free", &CostTable::free);
  m.def("cost_tables", [] {
    const auto tables = cost_tables();
    return std::vector<CostTable>(tables.begin(), tables.end());
  });
}

}  // namespace gmlake
