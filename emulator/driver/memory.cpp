// Driver entry points about memory: virtual memory management, allocation, host memory, copies, fills, pointers.
#include "driver/abi.h"

using namespace gmlake::device;
using namespace gmlake::driver;

namespace {

memory::Address at(Pointer pointer) {
  return static_cast<memory::Address>(pointer);
}
void* raw(Pointer pointer) {
  return reinterpret_cast<void*>(at(pointer));
}

// The properties that the emulated device knows: device memory on a card that exists, exportable as a file or not.
Status checked(const AllocationProperties* properties) {
  if (!configuration().virtual_memory) return Status::not_supported;
  if (properties == nullptr || properties->type != 1 || properties->location.type != 1) return Status::invalid_value;
  if (!exists(properties->location.id)) return Status::invalid_device;
  return (properties->handle_types & ~file_descriptor) == 0 ? Status::success : Status::not_supported;
}

Status allocate(Pointer* pointer, std::size_t size) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return refused;
  memory::Address address = 0;
  const Status status = memory::allocate(size, current_device(), address);
  if (status == Status::success) *pointer = address;
  return status;
}

// What an attribute is of a pointer that does not have it, where several are asked at once.
void unknown(void* value, PointerAttribute attribute) {
  switch (attribute) {
    case PointerAttribute::context:
    case PointerAttribute::device_pointer:
    case PointerAttribute::host_pointer:
    case PointerAttribute::buffer_id:
    case PointerAttribute::range_start:
    case PointerAttribute::range_size:
      *static_cast<std::uint64_t*>(value) = 0;
      break;
    case PointerAttribute::device_ordinal:
      *static_cast<int*>(value) = -2;
      break;
    default:
      *static_cast<unsigned*>(value) = 0;
  }
}

}  // namespace

GMLAKE_EXPORT Result cuMemGetAllocationGranularity(std::size_t* size, const AllocationProperties* properties, int) {
  *size = granularity;
  return code(checked(properties));
}

GMLAKE_EXPORT Result cuMemAddressReserve(Pointer* pointer, std::size_t size, std::size_t alignment, Pointer,
                                         unsigned long long) {
  memory::Address address = 0;
  const Status status = memory::reserve(size, alignment, address);
  if (status == Status::success) *pointer = address;
  return code(status);
}

GMLAKE_EXPORT Result cuMemAddressFree(Pointer pointer, std::size_t size) {
  return code(memory::free_range(at(pointer), size));
}

GMLAKE_EXPORT Result cuMemCreate(memory::Handle* handle, std::size_t size, const AllocationProperties* properties,
                                 unsigned long long) {
  if (const Status refused = checked(properties); refused != Status::success) return code(refused);
  return code(memory::create(size, properties->location.id, properties->handle_types, *handle));
}

GMLAKE_EXPORT Result cuMemRelease(memory::Handle handle) {
  return code(memory::release(handle));
}

GMLAKE_EXPORT Result cuMemMap(Pointer pointer, std::size_t size, std::size_t offset, memory::Handle handle,
                              unsigned long long) {
  return code(memory::map(at(pointer), size, offset, handle));
}

GMLAKE_EXPORT Result cuMemUnmap(Pointer pointer, std::size_t size) {
  return code(memory::unmap(at(pointer), size));
}

GMLAKE_EXPORT Result cuMemSetAccess(Pointer pointer, std::size_t size, const AccessDescription* accesses,
                                    std::size_t count) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(at(pointer), base, range)) return code(Status::invalid_value);
  for (std::size_t i = 0; i < count; ++i) {
    const Location& location = accesses[i].location;
    if (location.type != 1 || !exists(location.id)) return code(Status::invalid_device);
    const Status refused = peers::connect(range.device, location.id);
    if (refused != Status::success) return code(refused);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Status status = memory::set_access(at(pointer), size, accesses[i].location.id, accesses[i].flags != 0);
    if (status != Status::success) return code(status);
  }
  return count > 0 ? 0 : code(Status::invalid_value);
}

GMLAKE_EXPORT Result cuMemGetAccess(unsigned long long* flags, const Location* location, Pointer pointer) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(at(pointer), base, range) || !exists(location->id)) return code(Status::invalid_value);
  *flags = (range.access >> location->id & 1) != 0 ? 3 : 0;
  return 0;
}

GMLAKE_EXPORT Result cuMemRetainAllocationHandle(memory::Handle* handle, void* pointer) {
  return code(memory::retain(address(pointer), *handle));
}

GMLAKE_EXPORT Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, memory::Handle handle) {
  *properties = {};
  properties->type = 1;
  properties->location.type = 1;
  return code(memory::properties(handle, properties->location.id, properties->handle_types));
}

GMLAKE_EXPORT Result cuMemExportToShareableHandle(void* file, memory::Handle handle, int type, unsigned long long) {
  if (type != file_descriptor) return gmlake_device_unimplemented("export of memory other than as a file", 801);
  return code(memory::export_file(handle, *static_cast<int*>(file)));
}

GMLAKE_EXPORT Result cuMemImportFromShareableHandle(memory::Handle* handle, void* file, int type) {
  if (type != file_descriptor) return gmlake_device_unimplemented("import of memory other than as a file", 801);
  return code(memory::import_file(static_cast<int>(reinterpret_cast<std::intptr_t>(file)), current_device(), *handle));
}

GMLAKE_EXPORT Result cuMemAlloc_v2(Pointer* pointer, std::size_t size) {
  return code(allocate(pointer, size));
}

GMLAKE_EXPORT Result cuMemAllocManaged(Pointer* pointer, std::size_t size, unsigned) {
  return code(allocate(pointer, size));
}

GMLAKE_EXPORT Result cuMemFree_v2(Pointer pointer) {
  if (pointer == 0) return 0;
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return code(refused);
  return code(memory::free(at(pointer)));
}

GMLAKE_EXPORT Result cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  if (visible::count() == 0) return code(Status::no_device);
  *free_bytes = capacity::free(visible::physical(current_device()));
  *total = configuration().memory;
  return 0;
}

GMLAKE_EXPORT Result cuMemHostAlloc(void** pointer, std::size_t size, unsigned) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return code(refused);
  memory::Address address = 0;
  const Status status = memory::allocate_host(size, address);
  if (status == Status::success) *pointer = gmlake::device::pointer(address);
  return code(status);
}
GMLAKE_EXPORT Result cuMemAllocHost_v2(void** pointer, std::size_t size) {
  return cuMemHostAlloc(pointer, size, 0);
}

GMLAKE_EXPORT Result cuMemFreeHost(void* pointer) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return code(refused);
  return code(memory::free_host(address(pointer)));
}

GMLAKE_EXPORT Result cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return code(refused);
  return code(memory::register_host(address(pointer), size));
}

GMLAKE_EXPORT Result cuMemHostUnregister(void* pointer) {
  if (const Status refused = timeline::unsafe_call(); refused != Status::success) return code(refused);
  return code(memory::unregister_host(address(pointer)));
}

GMLAKE_EXPORT Result cuMemHostGetDevicePointer_v2(Pointer* device_pointer, void* pointer, unsigned) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(address(pointer), base, range)) return code(Status::invalid_value);
  *device_pointer = address(pointer);
  return 0;
}

GMLAKE_EXPORT Result cuMemGetAddressRange_v2(Pointer* base, std::size_t* size, Pointer pointer) {
  memory::Address begin = 0;
  memory::Range range;
  if (!memory::describe(at(pointer), begin, range)) return code(Status::not_found);
  if (base != nullptr) *base = begin;
  if (size != nullptr) *size = range.size;
  return 0;
}

GMLAKE_EXPORT Result cuPointerGetAttribute(void* value, PointerAttribute attribute, Pointer pointer) {
  memory::Address base = 0;
  memory::Range range;
  if (!memory::describe(at(pointer), base, range)) return code(Status::invalid_value);
  switch (attribute) {
    case PointerAttribute::context:
      *static_cast<Context*>(value) = context_of(range.device);
      return 0;
    case PointerAttribute::memory_type:
      *static_cast<unsigned*>(value) = range.host() ? on_host : on_device;
      return 0;
    case PointerAttribute::device_pointer:
      *static_cast<Pointer*>(value) = pointer;
      return 0;
    case PointerAttribute::host_pointer:
      *static_cast<void**>(value) = range.host() ? raw(pointer) : nullptr;
      return range.host() ? 0 : code(Status::invalid_value);
    case PointerAttribute::buffer_id:
      *static_cast<std::uint64_t*>(value) = range.id;
      return 0;
    case PointerAttribute::is_managed:
      *static_cast<unsigned*>(value) = 0;
      return 0;
    case PointerAttribute::device_ordinal:
      *static_cast<int*>(value) = range.device;
      return 0;
    case PointerAttribute::is_legacy_ipc_capable:
      *static_cast<unsigned*>(value) = range.kind == memory::Kind::allocation;
      return 0;
    case PointerAttribute::range_start:
      *static_cast<Pointer*>(value) = base;
      return 0;
    case PointerAttribute::range_size:
      *static_cast<std::size_t*>(value) = range.size;
      return 0;
    case PointerAttribute::mapped:
      *static_cast<unsigned*>(value) = 1;
      return 0;
  }
  return gmlake_device_unimplemented("cuPointerGetAttribute of this attribute", code(Status::not_supported));
}

GMLAKE_EXPORT Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values,
                                            Pointer pointer) {
  for (unsigned i = 0; i < count; ++i) {
    const Result result = cuPointerGetAttribute(values[i], attributes[i], pointer);
    if (result == code(Status::invalid_value))
      unknown(values[i], attributes[i]);
    else if (result != 0)
      return result;
  }
  return 0;
}

GMLAKE_EXPORT Result cuMemcpy(Pointer to, Pointer from, std::size_t size) {
  return code(copy(raw(to), raw(from), size, nullptr, true));
}
GMLAKE_EXPORT Result cuMemcpyAsync(Pointer to, Pointer from, std::size_t size, Stream stream) {
  return code(copy(raw(to), raw(from), size, stream, false));
}
GMLAKE_EXPORT Result cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t size) {
  return code(copy(raw(to), from, size, nullptr, true));
}
GMLAKE_EXPORT Result cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t size) {
  return code(copy(to, raw(from), size, nullptr, true));
}
GMLAKE_EXPORT Result cuMemcpyDtoD_v2(Pointer to, Pointer from, std::size_t size) {
  return cuMemcpy(to, from, size);
}
GMLAKE_EXPORT Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t size, Stream stream) {
  return code(copy(raw(to), from, size, stream, false));
}
GMLAKE_EXPORT Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t size, Stream stream) {
  return code(copy(to, raw(from), size, stream, false));
}
GMLAKE_EXPORT Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t size, Stream stream) {
  return cuMemcpyAsync(to, from, size, stream);
}

GMLAKE_EXPORT Result cuMemsetD8_v2(Pointer to, unsigned char value, std::size_t count) {
  return code(fill(raw(to), value, 1, count, nullptr, false));
}
GMLAKE_EXPORT Result cuMemsetD8Async(Pointer to, unsigned char value, std::size_t count, Stream stream) {
  return code(fill(raw(to), value, 1, count, stream, false));
}
GMLAKE_EXPORT Result cuMemsetD32_v2(Pointer to, unsigned value, std::size_t count) {
  return code(fill(raw(to), value, 4, count, nullptr, false));
}
GMLAKE_EXPORT Result cuMemsetD32Async(Pointer to, unsigned value, std::size_t count, Stream stream) {
  return code(fill(raw(to), value, 4, count, stream, false));
}
