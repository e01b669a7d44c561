// The parts of the module gmlake._core, and what they share.
#pragma once

#include <nanobind/nanobind.h>

#include "base/vocabulary.h"

namespace gmlake {

void bind_base(nanobind::module_& m);
void bind_driver(nanobind::module_& m);
void bind_allocator(nanobind::module_& m);
void bind_replay(nanobind::module_& m);
