// Exceptions and sizes for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string>

#include "base/error.h"
#include "base/units.h"
#include "edge/binding/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gmlake {
namespace {

constexpr const char* public_home = "gmlake.errors";

// Each error is also the Python exception that its reader would expect to catch.
template <typename Thrown>
void bind_error(nb::module_& m, const char* name, const nb::object& error, PyObject* builtin) {
  nb::exception<Thrown> bound(m, name, nb::make_tuple(error, nb::handle(builtin)));
  bound.attr("__module__") = public_home;
}

}  // namespace

std::uint64_t number(const nb::int_& value, const char* meaning) {
  const unsigned long long converted = PyLong_AsUnsignedLongLong(value.ptr());
  if (converted == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw InvalidArgument(std::string(nb::str(value).c_str()) + " is no " + meaning +
                          "; expected a whole number from 0 to 2^64 - 1");
  }
  return converted;
}

void bind_base(nb::module_& m) {
  nb::exception<Error> error(m, "Error");
  error.attr("__module__") = public_home;
  bind_error<InvalidArgument>(m, "InvalidArgument", error, PyExc_ValueError);
  bind_error<OutOfMemory>(m, "OutOfMemory", error, PyExc_MemoryError);
  bind_error<DriverError>(m, "DriverError", error, PyExc_RuntimeError);
  bind_error<BrokenInvariant>(m, "BrokenInvariant", error, PyExc_AssertionError);

  m.def("parse_bytes", &parse_bytes, "text"_a, "'512MiB' -> 536870912");
  m.def(
      "format_bytes", [](const nb::int_& value) { return format_bytes(number(value, "size")); }, "value"_a,
      "20971520 -> '20.00 MiB'");
}

}  // namespace gmlake
