// What PyTorch's own allocator would have needed: the rival `caching` gets the same requests on a simulated device of
// the same size, beside the real ones. Off unless started; it costs about as much per request as PyTorch's allocator
// does. Work on simulated streams ends at once, so that it never waits and keeps a little less than the real one would.
#pragma once

#include <atomic>
#include <optional>

#include "edge/process.h"
#include "edge/torch/callbacks.h"

namespace gmlake::rival {

void start();  // for all devices; what was allocated before is unknown to it

extern std::atomic<bool> running;

// The same calls that the real allocator gets, after those have succeeded.
void allocate(const ProcessDevice& device, Address block, Bytes size, Stream stream);
void release(int device, Address block) noexcept;
void record_stream(int device, Address block, Stream stream);
void begin_pool(const ProcessDevice& device, TorchPool pool, const TorchFilter& filter);
void end_pool(int device, TorchPool pool);
void release_pool(int device, TorchPool pool);
void trim();
void reset_peaks(int device);

std::optional<Statistics> statistics(int device);  // nothing: not started, or the device was not used

}  // namespace gmlake::rival
