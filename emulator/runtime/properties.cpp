// cudaGetDeviceProperties, for programs built against CUDA 13 and, under its name there, CUDA 12.
#include "runtime/properties.h"

#include <cstdio>

#include "runtime/abi.h"

using namespace gmlake::device;
using namespace gmlake::runtime;

extern "C" int cuDeviceGetUuid_v2(gmlake::driver::Uuid*, int);

namespace {

template <class Properties>
Status describe(Properties* properties, int device) {
  if (!exists(device)) return Status::invalid_device;
  const Configuration& card = configuration();
  const auto get = [device](int number) { return gmlake::driver::attribute(number, device); };
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", card.name.c_str());
  cuDeviceGetUuid_v2(reinterpret_cast<gmlake::driver::Uuid*>(properties->uuid), device);
  properties->total_memory = card.memory;
  properties->shared_per_block = static_cast<std::size_t>(get(8));
  properties->registers_per_block = get(12);
  properties->warp_size = get(10);
  properties->pitch = static_cast<std::size_t>(get(11));
  properties->threads_per_block = get(1);
  for (int axis = 0; axis < 3; ++axis) {
    properties->block[axis] = get(2 + axis);
    properties->grid[axis] = get(5 + axis);
  }
  properties->constant_memory = static_cast<std::size_t>(get(9));
  properties->major = card.capability_major;
  properties->minor = card.capability_minor;
  properties->texture_alignment = 512;
  properties->texture_pitch_alignment = 32;
  properties->multiprocessors = card.multiprocessors;
  properties->maps_host_memory = 1;
  properties->surface_alignment = 512;
  properties->concurrent_kernels = 1;
  properties->pci_bus = visible::physical(device) + 1;
  properties->copy_engines = get(40);
  properties->unified_addressing = 1;
  properties->bus_width = card.bus_width;
  properties->l2_bytes = static_cast<int>(card.l2_bytes);
  properties->threads_per_multiprocessor = get(39);
  properties->stream_priorities = properties->global_l1 = properties->local_l1 = 1;
  properties->shared_per_multiprocessor = static_cast<std::size_t>(get(81));
  properties->registers_per_multiprocessor = get(82);
  properties->managed_memory = properties->preemption = 1;
  properties->registered_host_pointers = properties->cooperative_launch = 1;
  properties->shared_per_block_on_request = static_cast<std::size_t>(get(97));
  properties->blocks_per_multiprocessor = get(106);
  properties->reserved_shared_per_block = static_cast<std::size_t>(get(111));
  properties->host_register = properties->memory_pools = properties->ipc_events = 1;
  properties->pool_handle_types = static_cast<unsigned>(get(119));
  return Status::success;
}

}  // namespace

GMLAKE_EXPORT Error cudaGetDeviceProperties(DeviceProperties* properties, int device) {
  return result(describe(properties, device));
}

GMLAKE_EXPORT Error cudaGetDeviceProperties_v2(DeviceProperties12* properties, int device) {
  const Status status = describe(properties, device);
  if (status != Status::success) return result(status);
  properties->clock_khz = configuration().clock_khz;
  properties->memory_clock_khz = configuration().memory_clock_khz;
  properties->overlap = 1;
  return 0;
}
