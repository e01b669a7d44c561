// The allocators of this process: one per device, on the cuda driver, made on first use with the options that the
// environment holds (GMLAKE_<OPTION>) and never destroyed, because memory is still freed while the process ends.
// PyTorch reaches them through the C ABI, Python through the binding: both see the same ones.
//
// A device without virtual memory management is served by a copy of PyTorch's own policy (the rival `caching`), unless
// GMLAKE=strict. A process that was forked from one that uses a device has none: memory of the parent is left alone.
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

// Throws InvalidArgument for a device that does not exist or an impossible option, DriverError without a usable driver
// and in a forked process.
ProcessDevice process_device(int device);

// The allocator if the device has been used, or nullptr. Never throws, never waits.
Allocator* process_allocator_if_used(int device) noexcept;

// The allocator that handed out a block, and its device; nullptr if no device is in use, or none of several knows it.
Allocator* process_allocator_of(Address block, int& device) noexcept;

// The options of "gmlake" as the environment and set_process_option set them; variables of the parts around the
// allocator (GMLAKE_DEVICE and others) are left alone. Throws InvalidArgument that names the variable.
Options options_from_environment();

// Goes before the environment. Throws InvalidArgument for an unknown name or an impossible value, and when a device is
// in use, because its allocator would not hear of it.
void set_process_option(std::string_view name, std::string_view value);
void check_process_options();  // throws InvalidArgument for one that makes no sense

// Never reserve more than this share of the device's memory. Throws InvalidArgument unless it is from 0 to 1.
void set_process_fraction(int device, double fraction);
double process_fraction(int device);  // 1 unless it was set

// Every allocator of this process, also one that is made later, keeps a journal of so many events; 0: none does. What
// was noted before stays, unless it is to be cleared. An allocator that cannot keep a journal is left out. Throws
// InvalidArgument for an impossible number.
void keep_process_journals(std::size_t entries, bool clear);
std::size_t process_journals();  // how many events they keep

}  // namespace gmlake
