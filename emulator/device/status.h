// The result of every call on the emulated device. The numbers are CUDA's own: driver and runtime agree on all of
// these, so that both layers hand a Status out as it is. Not for other libraries, which have codes of their own.
#pragma once

namespace gmlake::device {

enum class [[nodiscard]] Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_configuration = 9,
  invalid_device_function = 98,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  not_mapped = 211,
  peer_access_unsupported = 217,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  too_many_peers = 711,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  not_permitted = 800,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  capture_wrong_thread = 908,
  unknown = 999,
};

// CUDA's identifier ("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation") and sentence for a code; null if unknown.
const char* driver_name(int code);
const char* runtime_name(int code);
const char* description(int code);

}  // namespace gmlake::device
