// The ways in which the allocators we compare with fail, in one place so that they say it alike. No policy lives here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "driver/driver.h"
#include "watch/statistics.h"

namespace gmlake {

// Throws DriverError unless the call succeeded, or the driver has gone because the process ends.
void expect_success(Status status, std::string_view call);

// Throws InvalidArgument for a size that no device has, so that rounding it cannot overflow.
void check_size(Bytes size);

// Throws InvalidArgument: an address that is not in the client's hands.
[[noreturn]] void throw_unknown_address(Address address);

// Throws OutOfMemory with the figures that PyTorch's message has.
[[noreturn]] void throw_out_of_memory(Driver& driver, Bytes asked, Stream stream, const Statistics& statistics,
                                      std::optional<Bytes> limit, Bytes free_in_private_pools);

// Throws BrokenInvariant, naming the allocator, unless the condition holds.
void expect(bool condition, std::string_view allocator, std::string_view invariant);

// Throws BrokenInvariant unless the current values of PyTorch's nine statistics are those found by counting.
void expect_same(const Statistics& counted, const Statistics& kept, std::string_view allocator);

}  // namespace gmlake
