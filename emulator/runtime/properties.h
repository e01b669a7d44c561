// cudaDeviceProp as CUDA 13 and CUDA 12 lay it out. Fields that say nothing about an emulated card stay zero.
#pragma once

#include <cstddef>

namespace gmlake::runtime {

struct DeviceProperties {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  std::size_t total_memory, shared_per_block;
  int registers_per_block, warp_size;
  std::size_t pitch;
  int threads_per_block, block[3], grid[3];
  std::size_t constant_memory;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int multiprocessors, integrated, maps_host_memory;
  int textures_and_surfaces[39];
  std::size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines, unified_addressing, bus_width,
      l2_bytes, persisting_l2_bytes, threads_per_multiprocessor, stream_priorities, global_l1, local_l1;
  std::size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory, multi_gpu_board, board_group, native_atomics, pageable_access,
      concurrent_managed_access, preemption, registered_host_pointers, cooperative_launch;
  std::size_t shared_per_block_on_request;
  int host_page_tables, direct_managed_access, blocks_per_multiprocessor, access_window;
  std::size_t reserved_shared_per_block;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, rdma;
  unsigned rdma_flush;
  int rdma_ordering;
  unsigned pool_handle_types;
  int deferred_arrays, ipc_events, clusters, unified_functions, numa_config, numa, mps, host_numa;
  unsigned pci_device_id, pci_subsystem_id;
  int host_numa_ipc;
  int reserved[56];
};
static_assert(offsetof(DeviceProperties, total_memory) == 288 && offsetof(DeviceProperties, major) == 360);

struct DeviceProperties12 {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  std::size_t total_memory, shared_per_block;
  int registers_per_block, warp_size;
  std::size_t pitch;
  int threads_per_block, block[3], grid[3], clock_khz;
  std::size_t constant_memory;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int overlap, multiprocessors, kernel_timeout, integrated, maps_host_memory, compute_mode;
  int textures_and_surfaces[40];
  std::size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines, unified_addressing, memory_clock_khz,
      bus_width, l2_bytes, persisting_l2_bytes, threads_per_multiprocessor, stream_priorities, global_l1, local_l1;
  std::size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory, multi_gpu_board, board_group, native_atomics,
      double_precision_ratio, pageable_access, concurrent_managed_access, preemption, registered_host_pointers,
      cooperative_launch, cooperative_multi_device_launch;
  std::size_t shared_per_block_on_request;
  int host_page_tables, direct_managed_access, blocks_per_multiprocessor, access_window;
  std::size_t reserved_shared_per_block;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, rdma;
  unsigned rdma_flush;
  int rdma_ordering;
  unsigned pool_handle_types;
  int deferred_arrays, ipc_events, clusters, unified_functions;
  int reserved[63];
};
static_assert(offsetof(DeviceProperties12, major) == 360 && sizeof(DeviceProperties12) == 1032);

}  // namespace gmlake::runtime
