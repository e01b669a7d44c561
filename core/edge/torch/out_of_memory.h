// The end of a request that could not be served: PyTorch's profiler and the observers hear of it, and the client gets
// an error with PyTorch's figures, how fragmented the memory was, and what would have helped.
#pragma once

#include <cstddef>
#include <functional>

#include "edge/process.h"

namespace gmlake {

// As PyTorch calls its observers: how much was asked for, how much this process may have, how much the device has left.
using OutOfMemoryObserver = std::function<void(int device, std::size_t asked, std::size_t allowed, std::size_t free)>;

// Observers are called on the allocating thread while no lock of ours is held, and stay until the process ends.
void observe_out_of_memory(OutOfMemoryObserver observer);

// Somebody who may have memory of ours to let go of is asked before a request fails. True: something was.
using Reclaimer = bool (*)();
void reclaim_with(Reclaimer reclaimer);
bool reclaim();

[[noreturn]] void fail_out_of_memory(const ProcessDevice& device, Bytes asked);

}  // namespace gmlake
