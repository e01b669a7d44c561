// libcuda.so.1, found and initialised when it is first needed. What can be wrong with an installation is said here,
// with the way out; the driver itself only deals in statuses.
#pragma once

#include <string>

#include "driver/cuda/abi.h"

namespace gmlake::cuda {

// Throws DriverError when there is no usable library; a later call tries again.
const Functions& library();

// 0 when the library works but finds no device. Throws DriverError when there is no usable library.
int device_count();

std::string describe(const Functions& functions, Result result);  // "out of memory (CUDA error 2)"

}  // namespace gmlake::cuda
