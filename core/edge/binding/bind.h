// The parts of the module gmlake._core, and what they share.
#pragma once

#include <nanobind/nanobind.h>

#include "base/vocabulary.h"

namespace gmlake {

void bind_base(nanobind::module_& m);
void bind_driver(nanobind::module_& m);
void bind_allocator(nanobind::module_& m);
void bind_history(nanobind::module_& m);
void bind_replay(nanobind::module_& m);
void bind_torch(nanobind::module_& m);

// A size, address, handle or stream as Python gave it. Throws InvalidArgument, which names the value and what it was
// meant to be, where nanobind would only say that the types do not match.
std::uint64_t number(const nanobind::int_& value, const char* meaning);

}  // namespace gmlake
