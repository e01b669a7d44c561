// What we use of PyTorch's own libraries, found by name in the process that loaded them: nothing of PyTorch is needed
// to build, and what a version of it lacks is done without. This file knows symbols, not allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gmlake::pytorch {

// Whether somebody wants to hear of every block: a profiler, or the emulated device, which makes blocks fresh.
bool wants_reports();
// A block of so many bytes was handed out, or with a negative number taken back; both totals are those afterwards.
void report(void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved, int device);
void report_out_of_memory(std::int64_t bytes, std::size_t allocated, std::size_t reserved, int device);

// Throws c10::OutOfMemoryError, which becomes torch.OutOfMemoryError. Where PyTorch's library does not have what that
// takes, a runtime_error: the message still tells it from others, and that is what batch-size finders look at.
[[noreturn]] void throw_out_of_memory(const std::string& message);

}  // namespace gmlake::pytorch
