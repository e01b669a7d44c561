// The plug-in for PyTorch, for Python: addresses of its callbacks, and what its Python half tells and asks it.
// Functions of Python that the callbacks call are kept until they are replaced; the Python half takes them back before
// the interpreter goes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "edge/binding/bind.h"
#include "edge/binding/statistics.h"
#include "edge/process.h"
#include "edge/torch/callbacks.h"
#include "edge/torch/history.h"
#include "edge/torch/out_of_memory.h"
#include "edge/torch/rival.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

// Guarded by the interpreter's lock.
PyObject* recorder = nullptr;
PyObject* observer = nullptr;

void keep(PyObject*& place, const nb::object& function) {
  PyObject* const before = place;
  place = function.is_none() ? nullptr : function.inc_ref().ptr();
  Py_XDECREF(before);
}

// Signal handlers run in whatever Python code comes next, which may be ours inside an allocation, where no exception
// can pass: what they raise, a KeyboardInterrupt or a timeout, is raised as soon as the main thread is back in its own
// code.
bool raise_later(nb::python_error& error) {
  const nb::module_ threading = nb::module_::import_("threading");
  if (!threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"))) return false;
  const auto raise = [](void* kept) {
    const nb::object value = nb::steal(static_cast<PyObject*>(kept));
    PyErr_SetObject(value.type().ptr(), value.ptr());
    return -1;
  };
  nb::object value = nb::borrow(error.value());
  if (Py_AddPendingCall(raise, value.ptr()) != 0) return false;
  (void)value.release();
  return true;
}

// Both are called in the midst of anything, the clearing up after an exception too, which must be there afterwards.
std::uint64_t gather() {
  nb::gil_scoped_acquire lock;
  nb::error_scope as_before;
  if (recorder == nullptr) return 0;
  try {
    return nb::cast<std::uint64_t>(nb::borrow(recorder)());
  } catch (nb::python_error& error) {
    const bool for_want_of_room = error.matches(PyExc_RecursionError) || error.matches(PyExc_MemoryError);
    if (for_want_of_room || !raise_later(error)) error.discard_as_unraisable("gmlake: recording a stack");
  } catch (const nb::cast_error&) {
  }
  return 0;
}

void observed(int device, std::size_t asked, std::size_t allowed, std::size_t free) {
  nb::gil_scoped_acquire lock;
  nb::error_scope as_before;
  if (observer == nullptr) return;
  try {
    nb::borrow(observer)(device, asked, allowed, free);
  } catch (nb::python_error& error) {
    const bool its_own = error.matches(PyExc_Exception);  // does not hide that memory ran out
    if (its_own || !raise_later(error)) error.discard_as_unraisable("gmlake: an observer of memory running out");
  }
}

template <typename Function>
std::uintptr_t address(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function);
}

nb::dict callbacks() {
  nb::dict result;
  result["allocate"] = address(&gmlake_torch_allocate);
  result["free"] = address(&gmlake_torch_free);
  result["init"] = address(&gmlake_torch_init);
  result["empty_cache"] = address(&gmlake_torch_empty_cache);
  result["memory_fraction"] = address(&gmlake_torch_set_memory_fraction);
  result["base_allocation"] = address(&gmlake_torch_base_allocation);
  result["record_stream"] = address(&gmlake_torch_record_stream);
  result["begin_pool"] = address(&torch_begin_pool);
  result["end_pool"] = address(&torch_end_pool);
  result["release_pool"] = address(&torch_release_pool);
  return result;
}

void set_recorder(const nb::object& function, std::string_view level) {
  using history::Level;
  constexpr std::pair<std::string_view, Level> levels[] = {
      {"none", Level::none}, {"state", Level::state}, {"alloc", Level::alloc}, {"all", Level::all}};
  for (const auto& [name, value] : levels) {
    if (name != level) continue;
    keep(recorder, function);
    history::start(function.is_none() ? nullptr : &gather, value);
    return;
  }
  throw InvalidArgument("'" + std::string(level) + "' is no level of recording; expected none, state, alloc or all");
}

}  // namespace

void bind_torch(nb::module_& m) {
  m.def("torch_callbacks", &callbacks, "Addresses of the functions that PyTorch's pluggable allocator calls.");
  m.def("set_recorder", &set_recorder, "function"_a.none(), "level"_a = "none",
        "Call this for every allocation (level all: also every free) for a number that stands for its stack.");
  m.def("recorded_context", &history::of_block, "block"_a, "The number that a block in use was given; 0: none.");
  m.def("recorded_contexts", &history::of_all_blocks, "Addresses of blocks in use and their numbers.");
  m.def("set_remark", &set_remark, "text"_a, "What is noted on this thread carries the text from now on; empty: none.");
  m.def("remark", &remark, "The text that what is noted on this thread carries.");
  m.def("annotate", &history::annotate, "block"_a, "text"_a, "Note a text about a block in use.");
  m.def(
      "note_snapshots",
      [] {
        for (int device = 0; device < most_devices; ++device)
          if (Allocator* const allocator = process_allocator_if_used(device)) allocator->note_snapshot();
      },
      Unlocked(), "Note in every journal that somebody looked.");
  m.def(
      "set_out_of_memory_observer",
      [](const nb::object& function) {
        keep(observer, function);
        static const bool observing = (observe_out_of_memory(&observed), true);
        (void)observing;
      },
      "function"_a.none(), "Call this with device, bytes asked, allowed and free before the error is raised.");

  m.def("start_rival", &rival::start, "From now on PyTorch's own policy is simulated beside the real allocator.");
  m.def(
      "rival_statistics",
      [](int device) -> std::optional<nb::dict> {
        const std::optional<Statistics> found = rival::statistics(device);
        if (!found) return std::nullopt;
        return as_dict(*found);
      },
      "device"_a, "What PyTorch's own allocator would have; None if that is not simulated.");
  m.def("reset_rival_peaks", &rival::reset_peaks, "device"_a);

  m.def(
      "used_devices",
      [] {
        std::vector<int> used;
        for (int device = 0; device < most_devices; ++device)
          if (process_allocator_if_used(device) != nullptr) used.push_back(device);
        return used;
      },
      "The devices whose allocator exists.");
  m.def("set_process_option", &set_process_option, "name"_a, "value"_a,
        "An option of gmlake for this process; goes before the environment.");
  m.def("check_process_options", &check_process_options, "Raise InvalidArgument for a wrong one.");
  m.def("set_process_fraction", &set_process_fraction, "device"_a, "fraction"_a, Unlocked());
  m.def("process_fraction", &process_fraction, "device"_a);
  m.def(
      "keep_process_journals",
      [](const nb::int_& entries, bool clear) {
        const std::uint64_t kept = number(entries, "number of entries");
        nb::gil_scoped_release release;
        keep_process_journals(kept, clear);
      },
      "entries"_a, "clear"_a, "Every allocator of this process keeps its latest events from now on; 0: none does.");
  m.def("skip_in_journals", &Journal::skip, "actions"_a, "Kinds of events that are not noted, as bits.");
  m.attr("LONGEST_JOURNAL") = Journal::longest;
  nb::list actions;
  for (int action = 0; action <= static_cast<int>(JournalEntry::Action::trim); ++action) {
    const std::string_view name = to_string(static_cast<JournalEntry::Action>(action));
    actions.append(nb::str(name.data(), name.size()));
  }
  m.attr("JOURNAL_ACTIONS") = nb::tuple(actions);
}

}  // namespace gmlake
