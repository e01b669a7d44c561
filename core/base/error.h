// What the core throws. The message is one sentence that names the offending value and what was expected; whoever
// catches it at the edge shows it unchanged. State is unchanged when one of these leaves an allocator's method.
#pragma once

#include <stdexcept>

namespace gmlake {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A caller's mistake: an unknown option, a pointer that was never handed out, a pool that does not exist.
struct InvalidArgument : Error {
  using Error::Error;
};

// The request cannot be served, even after the whole ladder.
struct OutOfMemory : Error {
  using Error::Error;
};

// The driver refused something that cannot be retried (a lost device, no virtual memory management).
struct DriverError : Error {
  using Error::Error;
};

// The device has no virtual memory management.
struct NoVirtualMemory : DriverError {
  using DriverError::DriverError;
};

// check() found a broken invariant: a defect of ours.
struct BrokenInvariant : Error {
  using Error::Error;
};

}  // namespace gmlake
