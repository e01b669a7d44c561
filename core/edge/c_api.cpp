#include "edge/c_api.h"

#include <string>

#include "base/error.h"
#include "base/units.h"
#include "edge/process.h"

namespace {

using namespace gmlake;

thread_local std::string last_error;

int failed(gmlake_result result, const char* sentence) noexcept {
  try {
    last_error = sentence;
  } catch (...) {
    last_error.clear();  // no memory even for the sentence
  }
  return result;
}

// Runs what may throw and turns exceptions into results.
template <typename Act>
int guarded(Act act) noexcept {
  try {
    act();
    return GMLAKE_SUCCESS;
  } catch (const InvalidArgument& error) {
    return failed(GMLAKE_INVALID_ARGUMENT, error.what());
  } catch (const OutOfMemory& error) {
    return failed(GMLAKE_OUT_OF_MEMORY, error.what());
  } catch (const DriverError& error) {
    return failed(GMLAKE_DRIVER_ERROR, error.what());
  } catch (const std::exception& error) {
    return failed(GMLAKE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(GMLAKE_INTERNAL_ERROR, "an unknown error occurred");
  }
}

Address as_address(void* pointer) {
  return reinterpret_cast<Address>(pointer);
}
Stream as_stream(void* stream) {
  return reinterpret_cast<Stream>(stream);
}

Allocator& used_allocator(int device) {
  Allocator* const allocator = process_allocator_if_used(device);
  if (allocator == nullptr) throw InvalidArgument("nothing was ever allocated on device " + std::to_string(device));
  return *allocator;
}

// Addresses are unique in a process, so that at most one device accepts one.
void record_stream_somewhere(Address address, Stream stream) {
  for (int device = 0; device < most_devices; ++device) {
    Allocator* const allocator = process_allocator_if_used(device);
    if (allocator == nullptr) continue;
    try {
      allocator->record_stream(address, stream);
      return;
    } catch (const InvalidArgument&) {
      continue;
    }
  }
  throw InvalidArgument("address " + format_address(address) + " is not allocated on any device");
}

}  // namespace

extern "C" {

int gmlake_init(int device_count) {
  return guarded([&] {
    if (device_count < 0 || device_count > most_devices)
      throw InvalidArgument(std::to_string(device_count) + " devices are impossible; expected 0 to " +
                            std::to_string(most_devices));
    options_from_environment();
  });
}

void* gmlake_allocate(size_t size, int device, void* stream) {
  Address address = 0;
  guarded([&] { address = process_device(device).allocator.allocate(size, as_stream(stream)); });
  return reinterpret_cast<void*>(address);
}

int gmlake_free(void* address, size_t, int device, void*) {
  return guarded([&] {
    if (address != nullptr) used_allocator(device).release(as_address(address));
  });
}

int gmlake_record_stream(void* address, void* stream) {
  return guarded([&] { record_stream_somewhere(as_address(address), as_stream(stream)); });
}

int gmlake_trim(void) {
  return guarded([] {
    for (int device = 0; device < most_devices; ++device)
      if (Allocator* const allocator = process_allocator_if_used(device)) allocator->trim();
  });
}

int gmlake_set_memory_fraction(double fraction, int device) {
  return guarded([&] { set_process_fraction(device, fraction); });
}

int gmlake_begin_pool(int device, uint64_t capture, uint64_t user, gmlake_stream_filter filter, void* context) {
  return guarded([&] {
    process_device(device).allocator.begin_pool({capture, user}, [filter, context](Stream stream) {
      return filter == nullptr || filter(reinterpret_cast<void*>(stream), context) != 0;
    });
  });
}

int gmlake_end_pool(int device, uint64_t capture, uint64_t user) {
  return guarded([&] { used_allocator(device).end_pool({capture, user}); });
}

int gmlake_release_pool(int device, uint64_t capture, uint64_t user) {
  return guarded([&] { used_allocator(device).release_pool({capture, user}); });
}

const char* gmlake_last_error(void) {
  return last_error.c_str();
}

}  // extern "C"
