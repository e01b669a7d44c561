// Runtime entry points about memory: allocation, host memory, copies, fills, pointers, and the stream-ordered pool.
#include "device/pool.h"
#include "runtime/abi.h"

using namespace gmlake::device;
using namespace gmlake::runtime;

namespace {

// A pool is known by the device whose default pool it is.
char pool_tokens[most_devices];
bool is_pool(const void* pool) {
  const auto at = reinterpret_cast<std::uintptr_t>(pool), begin = reinterpret_cast<std::uintptr_t>(pool_tokens);
  return at >= begin && at < begin + static_cast<std::uintptr_t>(visible::count());
}
int device_of(const void* pool) {
  return static_cast<int>(static_cast<const char*>(pool) - pool_tokens);
}

enum class PoolAttribute : int {
  follow_events = 1,
  opportunistic = 2,
  internal_dependencies = 3,
  release_threshold = 4,
  reserved = 5,
  reserved_high = 6,
  used = 7,
  used_high = 8,
};

}  // namespace

GMLAKE_EXPORT Error cudaMalloc(void** at, std::size_t size) {
  *at = nullptr;
  if (size == 0) return 0;
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  memory::Address place = 0;
  const Status status = memory::allocate(size, current_device(), place);
  *at = pointer(place);
  return result(status);
}
GMLAKE_EXPORT Error cudaMallocManaged(void** at, std::size_t size, unsigned) {
  return cudaMalloc(at, size);
}

GMLAKE_EXPORT Error cudaFree(void* at) {
  if (at == nullptr) return 0;
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  if (pool::free(address(at), nullptr) == Status::success) return 0;
  return result(memory::free(address(at)));
}

GMLAKE_EXPORT Error cudaHostAlloc(void** at, std::size_t size, unsigned) {
  *at = nullptr;
  if (size == 0) return 0;
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  memory::Address place = 0;
  const Status status = memory::allocate_host(size, place);
  *at = pointer(place);
  return result(status);
}
GMLAKE_EXPORT Error cudaMallocHost(void** at, std::size_t size) {
  return cudaHostAlloc(at, size, 0);
}
GMLAKE_EXPORT Error cudaFreeHost(void* at) {
  if (at == nullptr) return 0;
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  return result(memory::free_host(address(at)));
}
GMLAKE_EXPORT Error cudaHostRegister(void* at, std::size_t size, unsigned) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  return result(memory::register_host(address(at), size));
}
GMLAKE_EXPORT Error cudaHostUnregister(void* at) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return result(refused);
  return result(memory::unregister_host(address(at)));
}
GMLAKE_EXPORT Error cudaHostGetDevicePointer(void** device_pointer, void* at, unsigned) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(address(at), base, range)) return result(Status::invalid_value);
  *device_pointer = at;
  return 0;
}

GMLAKE_EXPORT Error cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  if (visible::count() == 0) return result(Status::no_device);
  *free_bytes = capacity::free(visible::physical(current_device()));
  *total = configuration().memory;
  return 0;
}

GMLAKE_EXPORT Error cudaPointerGetAttributes(PointerAttributes* attributes, const void* at) {
  memory::Address base = 0;
  memory::Range range;
  *attributes = {};
  attributes->device = -2;
  attributes->host_pointer = const_cast<void*>(at);
  if (!memory::describe(address(at), base, range)) return 0;  // memory that CUDA knows nothing of
  attributes->type = range.host() ? 1 : 2;
  attributes->device = range.device;
  attributes->device_pointer = const_cast<void*>(at);
  if (!range.host()) attributes->host_pointer = nullptr;
  return 0;
}

GMLAKE_EXPORT Error cudaMemcpy(void* to, const void* from, std::size_t size, int) {
  return result(copy(to, from, size, nullptr, true));
}
GMLAKE_EXPORT Error cudaMemcpyAsync(void* to, const void* from, std::size_t size, int, Stream stream) {
  return result(copy(to, from, size, stream, false));
}
GMLAKE_EXPORT Error cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                                        Stream stream) {
  if (!exists(to_device) || !exists(from_device)) return result(Status::invalid_device);
  return result(copy_between_peers(to, from, size, stream));
}
GMLAKE_EXPORT Error cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                      std::size_t width, std::size_t height, int, Stream stream) {
  if (width > to_pitch || width > from_pitch) return result(Status::invalid_value);
  for (std::size_t row = 0; row < height; ++row) {
    const Status status = copy(static_cast<char*>(to) + row * to_pitch,
                               static_cast<const char*>(from) + row * from_pitch, width, stream, false);
    if (status != Status::success) return result(status);
  }
  return 0;
}
GMLAKE_EXPORT Error cudaMemset(void* at, int value, std::size_t size) {
  return result(fill(at, static_cast<unsigned char>(value), 1, size, nullptr, false));
}
GMLAKE_EXPORT Error cudaMemsetAsync(void* at, int value, std::size_t size, Stream stream) {
  return result(fill(at, static_cast<unsigned char>(value), 1, size, stream, false));
}

GMLAKE_EXPORT Error cudaMallocAsync(void** at, std::size_t size, Stream stream) {
  *at = nullptr;
  if (size == 0) return 0;
  timeline::CaptureStatus capture{};
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  if (const Status status = timeline::capture_info(stream, capture, id, graph); status != Status::success)
    return result(status);
  if (capture != timeline::CaptureStatus::none) return gmlake_device_unimplemented("cudaMallocAsync in a capture", 801);
  timeline::StreamProperties owner{};
  if (const Status status = timeline::properties(stream, owner); status != Status::success) return result(status);
  memory::Address place = 0;
  const Status status = pool::allocate(owner.device, size, stream, place);
  *at = pointer(place);
  return result(status);
}
GMLAKE_EXPORT Error cudaFreeAsync(void* at, Stream stream) {
  const Status status = pool::free(address(at), stream);
  return result(status == Status::not_found ? Status::invalid_value : status);
}

GMLAKE_EXPORT Error cudaDeviceGetDefaultMemPool(void** pool, int device) {
  if (!exists(device)) return result(Status::invalid_device);
  *pool = &pool_tokens[device];
  return 0;
}

GMLAKE_EXPORT Error cudaMemPoolGetAttribute(void* pool, PoolAttribute attribute, void* value) {
  if (!is_pool(pool)) return result(Status::invalid_value);
  const pool::Usage usage = pool::usage(device_of(pool));
  auto& number = *static_cast<std::uint64_t*>(value);
  switch (attribute) {
    case PoolAttribute::reserved:
      number = usage.reserved;
      return 0;
    case PoolAttribute::reserved_high:
      number = usage.reserved_peak;
      return 0;
    case PoolAttribute::used:
      number = usage.used;
      return 0;
    case PoolAttribute::used_high:
      number = usage.used_peak;
      return 0;
    case PoolAttribute::release_threshold:
      number = ~std::uint64_t{0};
      return 0;
    case PoolAttribute::follow_events:
    case PoolAttribute::opportunistic:
    case PoolAttribute::internal_dependencies:
      *static_cast<int*>(value) = 1;
      return 0;
  }
  return result(Status::invalid_value);
}

GMLAKE_EXPORT Error cudaMemPoolSetAttribute(void* pool, PoolAttribute attribute, void*) {
  if (!is_pool(pool)) return result(Status::invalid_value);
  // The pool keeps what it has until it is trimmed, as PyTorch asks it to; both peaks are reset together.
  if (attribute == PoolAttribute::reserved_high || attribute == PoolAttribute::used_high)
    pool::reset_peaks(device_of(pool));
  return 0;
}

GMLAKE_EXPORT Error cudaMemPoolTrimTo(void* pool, std::size_t keep) {
  if (!is_pool(pool)) return result(Status::invalid_value);
  pool::trim(device_of(pool), keep);
  return 0;
}
GMLAKE_EXPORT Error cudaMemPoolSetAccess(void* pool, const gmlake::driver::AccessDescription* accesses,
                                         std::size_t count) {
  if (!is_pool(pool)) return result(Status::invalid_value);
  for (std::size_t i = 0; i < count; ++i) {
    const int device = accesses[i].location.id;
    if (accesses[i].location.type != 1 || !exists(device)) return result(Status::invalid_device);
    if (const Status refused = pool::set_access(device_of(pool), device, accesses[i].flags != 0);
        refused != Status::success)
      return result(refused);
  }
  return 0;
}

// No graph owns memory here.
GMLAKE_EXPORT Error cudaDeviceGetGraphMemAttribute(int device, int, void* value) {
  *static_cast<std::uint64_t*>(value) = 0;
  return exists(device) ? 0 : result(Status::invalid_device);
}
GMLAKE_EXPORT Error cudaDeviceSetGraphMemAttribute(int device, int, void*) {
  return exists(device) ? 0 : result(Status::invalid_device);
}
