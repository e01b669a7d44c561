// What compiled CUDA code registers and launches: kernels are known by name only and do nothing; device variables get
// memory when somebody asks for their address.
#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/abi.h"
#include "runtime/images.h"

using namespace gmlake::device;
using namespace gmlake::runtime;

namespace {

struct Variable {
  std::size_t size = 0;
  std::map<int, memory::Address> at;  // by device
};

struct Variables {
  std::mutex lock;
  std::unordered_map<const void*, Variable> all;
};

Variables& variables() {
  static Variables& alive = *new Variables;  // registered before and after main
  return alive;
}

struct PendingLaunch {
  Dimensions grid, block;
  std::size_t shared;
  Stream stream;
};
thread_local std::vector<PendingLaunch> pending;

Status symbol(const void* host_variable, memory::Address& at, std::size_t& size) {
  Variables& known = variables();
  std::lock_guard guard(known.lock);
  const auto found = known.all.find(host_variable);
  if (found == known.all.end()) return Status::not_found;
  memory::Address& place = found->second.at[current_device()];
  if (place == 0) {
    const Status status = memory::allocate(found->second.size, current_device(), place);
    if (status != Status::success) return status;
  }
  at = place;
  size = found->second.size;
  return Status::success;
}

// A kernel is launched on streams of the current device only.
Error launch(Dimensions grid, Dimensions block, Stream stream) {
  if (!gmlake::driver::launchable(grid, block)) return result(Status::invalid_configuration);
  timeline::StreamProperties properties{current_device(), 0, 0, 0};
  const Status status = stream == nullptr ? Status::success : timeline::properties(stream, properties);
  if (status != Status::success) return result(status);
  return result(properties.device == current_device() ? kernel(stream) : Status::invalid_handle);
}

}  // namespace

GMLAKE_EXPORT void** __cudaRegisterFatBinary(void* fat_binary) {
  return images::add(fat_binary);
}
GMLAKE_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
GMLAKE_EXPORT void __cudaUnregisterFatBinary(void**) {}
GMLAKE_EXPORT char __cudaInitModule(void**) {
  return 1;
}
GMLAKE_EXPORT void __cudaRegisterFunction(void** fat_binary, const char* kernel, char*, const char*, int, void*, void*,
                                          void*, void*, int*) {
  images::add_kernel(fat_binary, kernel);
}
GMLAKE_EXPORT void __cudaRegisterVar(void**, char* host_variable, char*, const char*, int, std::size_t size, int, int) {
  Variables& known = variables();
  std::lock_guard guard(known.lock);
  known.all[host_variable].size = size;
}

GMLAKE_EXPORT Error __cudaGetKernel(const void** kernel_handle, const void* function) {
  *kernel_handle = function;
  return 0;
}

GMLAKE_EXPORT unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, std::size_t shared,
                                                   Stream stream) {
  pending.push_back({grid, block, shared, stream});
  return 0;
}

GMLAKE_EXPORT Error __cudaPopCallConfiguration(Dimensions* grid, Dimensions* block, std::size_t* shared,
                                               Stream* stream) {
  if (pending.empty()) return result(Status::illegal_state);
  const PendingLaunch& launch = pending.back();
  *grid = launch.grid;
  *block = launch.block;
  *shared = launch.shared;
  *stream = launch.stream;
  pending.pop_back();
  return 0;
}

GMLAKE_EXPORT Error __cudaLaunchKernel(const void*, Dimensions grid, Dimensions block, void**, std::size_t,
                                       Stream stream) {
  return launch(grid, block, stream);
}
GMLAKE_EXPORT Error cudaLaunchKernel(const void*, Dimensions grid, Dimensions block, void**, std::size_t,
                                     Stream stream) {
  return launch(grid, block, stream);
}
GMLAKE_EXPORT Error cudaLaunchCooperativeKernel(const void*, Dimensions grid, Dimensions block, void**, std::size_t,
                                                Stream stream) {
  return launch(grid, block, stream);
}
GMLAKE_EXPORT Error cudaLaunchKernelExC(const LaunchConfiguration* how, const void*, void**) {
  return launch(how->grid, how->block, how->stream);
}

GMLAKE_EXPORT Error cudaLaunchHostFunc(Stream stream, void (*function)(void*), void* argument) {
  return result(enqueue(stream, 0, [=] { function(argument); }));
}
GMLAKE_EXPORT Error cudaStreamAddCallback(Stream stream, void (*function)(Stream, Error, void*), void* argument,
                                          unsigned) {
  return result(enqueue(stream, 0, [=] { function(stream, 0, argument); }));
}

GMLAKE_EXPORT Error cudaGetSymbolAddress(void** at, const void* host_variable) {
  memory::Address place = 0;
  std::size_t size = 0;
  const Status status = symbol(host_variable, place, size);
  if (status == Status::success) *at = pointer(place);
  return result(status);
}

GMLAKE_EXPORT Error cudaGetSymbolSize(std::size_t* size, const void* host_variable) {
  memory::Address place = 0;
  return result(symbol(host_variable, place, *size));
}

GMLAKE_EXPORT Error cudaMemcpyToSymbol(const void* host_variable, const void* from, std::size_t size,
                                       std::size_t offset, int) {
  memory::Address place = 0;
  std::size_t room = 0;
  if (const Status status = symbol(host_variable, place, room); status != Status::success) return result(status);
  if (offset > room || size > room - offset) return result(Status::invalid_value);
  return result(copy(pointer(place + offset), from, size, nullptr, true));
}

GMLAKE_EXPORT Error cudaFuncGetAttributes(FunctionAttributes* attributes, const void* kernel) {
  *attributes = {};
  attributes->threads_per_block = 1024;
  attributes->registers = 32;
  const int capability = configuration().capability_major * 10 + configuration().capability_minor;
  const images::Versions versions = images::versions(kernel, capability);
  attributes->ptx_version = versions.ptx;
  attributes->binary_version = versions.binary;
  attributes->dynamic_shared_bytes = 49152;
  return 0;
}
GMLAKE_EXPORT Error cudaFuncSetAttribute(const void*, int, int) {
  return 0;
}
GMLAKE_EXPORT Error cudaFuncSetCacheConfig(const void*, int) {
  return 0;
}
GMLAKE_EXPORT Error cudaKernelSetAttributeForDevice(void*, int, int, int) {
  return 0;
}

GMLAKE_EXPORT Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, std::size_t) {
  if (threads <= 0) return result(Status::invalid_value);
  *blocks = std::clamp(gmlake::driver::attribute(39, 0) / threads, 1, gmlake::driver::attribute(106, 0));
  return 0;
}
GMLAKE_EXPORT Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                           int threads, std::size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
