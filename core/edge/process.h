// The allocators of this process: one per device, on the cuda driver, made on first use with the options that the
// environment holds (GMLAKE_<OPTION>) and never destroyed, because memory is still freed while the process ends.
// PyTorch reaches them through the C ABI, Python through the binding: both see the same ones.
#pragma once

#include "allocator/allocator.h"
#include "base/options.h"
#include "driver/driver.h"

namespace gmlake {

inline constexpr int most_devices = 64;

struct ProcessDevice {
  Driver& driver;
  Allocator& allocator;
};

// Throws InvalidArgument for a device that does not exist or an impossible option, DriverError without a usable driver.
ProcessDevice process_device(int device);

// The allocator if the device has been used, or nullptr. Never throws, never waits.
Allocator* process_allocator_if_used(int device) noexcept;

// The options of "gmlake" as the environment sets them; switches of the product (GMLAKE_DEVICE and others) are left
// alone. Throws InvalidArgument that names the variable.
Options options_from_environment();

}  // namespace gmlake
