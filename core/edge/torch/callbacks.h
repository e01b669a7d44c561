// What PyTorch's pluggable allocator calls: the functions behind torch.cuda.memory.CUDAPluggableAllocator, with exactly
// the types that PyTorch passes. Any thread calls them, with any device current and without the interpreter's lock.
//
// Errors of an allocation are exceptions, as PyTorch expects: c10::OutOfMemoryError, or others with one sentence. A
// free never throws, because it runs in destructors.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "allocator/allocator.h"

extern "C" {

void* gmlake_torch_allocate(std::size_t size, int device, void* stream);
void gmlake_torch_free(void* block, std::size_t size, int device, void* stream);
void gmlake_torch_delete(void* block);  // the same for a host that keeps no book of its own
void gmlake_torch_init(int device_count);
void gmlake_torch_empty_cache();
void gmlake_torch_set_memory_fraction(double fraction, int device);
void* gmlake_torch_base_allocation(void* address, std::size_t* size);
void gmlake_torch_record_stream(void* block, void* stream);
}

namespace gmlake {

using TorchPool = std::pair<unsigned long long, unsigned long long>;
using TorchFilter = std::function<bool(void* stream)>;

// These take C++ types by value, which a C name would not promise.
void torch_begin_pool(int device, TorchPool pool, TorchFilter filter);
void torch_end_pool(int device, TorchPool pool);
void torch_release_pool(int device, TorchPool pool);
// As Allocator::restore_pool.
std::vector<LiveBlock> torch_restore_pool(int device, TorchPool pool, const std::vector<LiveBlock>& blocks);

}  // namespace gmlake
