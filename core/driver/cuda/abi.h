// The part of the CUDA driver's binary interface that we use: types, constants and the table of functions found in
// libcuda.so.1. Declared here so that nothing of CUDA is needed to build; only documented functions are listed. The
// names are ours, the layouts and numbers are those of the driver API since CUDA 11.2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gmlake::cuda {

using Device = int;
using Context = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;

enum class Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  map_failed = 205,
  unmap_failed = 206,
  already_mapped = 208,
  not_mapped = 211,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  not_permitted = 800,
  not_supported = 801,
  capture_implicit = 906,
};

enum class Attribute : int {
  virtual_memory_management = 102,
  export_as_file = 103,
  rdma_with_virtual_memory = 110,
};

struct Location {
  int type = 1;  // a device
  int id = 0;
};

struct AllocationProperties {
  int type = 1;          // pinned, the only kind
  int handle_types = 0;  // as what it can be exported to other processes
  Location location;
  void* win32_metadata = nullptr;
  struct {
    unsigned char compression = 0;
    unsigned char rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
static_assert(sizeof(AllocationProperties) == 32 && offsetof(AllocationProperties, flags) == 24);

struct AccessDescription {
  Location location;
  int flags = 3;  // read and write
};
static_assert(sizeof(AccessDescription) == 12);

inline constexpr int minimum_granularity = 0;
inline constexpr int as_file = 1;
inline constexpr unsigned event_without_timing = 2;
inline constexpr int capture_none = 0;
inline constexpr int capture_mode_relaxed = 2;

struct Functions {
  Result (*init)(unsigned flags);
  Result (*driver_version)(int* version);
  Result (*error_string)(Result result, const char** text);

  Result (*device_count)(int* count);
  Result (*device_get)(Device* device, int ordinal);
  Result (*device_attribute)(int* value, Attribute attribute, Device device);
  Result (*device_can_access_peer)(int* can, Device device, Device peer);
  Result (*primary_context_retain)(Context* context, Device device);
  Result (*primary_context_release)(Device device);
  Result (*context_get)(Context* context);
  Result (*context_push)(Context context);
  Result (*context_pop)(Context* context);
  Result (*context_synchronize)();

  Result (*granularity)(std::size_t* granularity, const AllocationProperties* properties, int option);
  Result (*address_reserve)(DevicePointer* at, std::size_t size, std::size_t alignment, DevicePointer wish,
                            unsigned long long flags);
  Result (*address_free)(DevicePointer at, std::size_t size);
  Result (*create)(AllocationHandle* handle, std::size_t size, const AllocationProperties* properties,
                   unsigned long long flags);
  Result (*release)(AllocationHandle handle);
  Result (*map)(DevicePointer at, std::size_t size, std::size_t offset, AllocationHandle handle,
                unsigned long long flags);
  Result (*unmap)(DevicePointer at, std::size_t size);
  Result (*set_access)(DevicePointer at, std::size_t size, const AccessDescription* accesses, std::size_t count);
  Result (*export_handle)(void* shareable, AllocationHandle handle, int type, unsigned long long flags);
  Result (*import_handle)(AllocationHandle* handle, void* shareable, int type);
  Result (*allocate)(DevicePointer* at, std::size_t size);
  Result (*free)(DevicePointer at);
  Result (*memory_info)(std::size_t* free, std::size_t* total);

  Result (*event_create)(EventHandle* event, unsigned flags);
  Result (*event_destroy)(EventHandle event);
  Result (*event_record)(EventHandle event, StreamHandle stream);
  Result (*event_query)(EventHandle event);
  Result (*event_synchronize)(EventHandle event);
  Result (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags);
  Result (*stream_synchronize)(StreamHandle stream);
  Result (*stream_is_capturing)(StreamHandle stream, int* status);
  Result (*exchange_capture_mode)(int* mode);
};

}  // namespace gmlake::cuda
