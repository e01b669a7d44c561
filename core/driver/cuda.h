// The driver of a real device (or of the emulated one): documented calls of libcuda.so.1, in the device's primary
// context, from any thread. Strictness is the library's own; the only book kept here is how many mappings an unmap
// takes away, because the contract counts handles and the library does not say.
#pragma once

#include <map>
#include <vector>

#include "driver/cuda/abi.h"
#include "driver/driver.h"

namespace gmlake {

class CudaDriver final : public Driver {
 public:
  enum class Needs : std::uint8_t { virtual_memory, whole_allocations };  // the second: allocate and free will do

  // Throws DriverError when there is no usable libcuda.so.1, NoVirtualMemory when the device lacks it and it is needed,
  // and InvalidArgument for a device that does not exist.
  explicit CudaDriver(int device, Needs needs = Needs::virtual_memory);
  ~CudaDriver() override;

  static int device_count();  // 0 without a device; DriverError without a usable library

  int device() const override { return device_; }
  Bytes granularity() const override { return granularity_; }
  Status memory_info(Bytes& free, Bytes& total) override;
  Status is_capturing(Stream stream, bool& capturing) override;

 private:
  Outcome do_reserve(Bytes size, Address& range) override;
  Outcome do_free_range(Address range, Bytes size) override;
  Outcome do_create(Bytes size, Handle& handle) override;
  Outcome do_release(Handle handle) override;
  Outcome do_map(Address at, Bytes size, Handle handle) override;
  Outcome do_unmap(Address at, Bytes size) override;
  Outcome do_set_access(Address at, Bytes size) override;
  Outcome do_allocate(Bytes size, Address& at) override;
  Outcome do_free(Address at) override;
  Outcome do_create_event(Event& event) override;
  Outcome do_destroy_event(Event event) override;
  Outcome do_record(Event event, Stream stream) override;
  Outcome do_query(Event event) override;
  Outcome do_wait(Stream stream, Event event) override;
  Outcome do_synchronize(Event event) override;

  void prepare_mapping(cuda::Device id);
  template <typename Act>
  Outcome call(Act act);

  const cuda::Functions& cuda_;
  int device_;
  Bytes granularity_ = Bytes{2} << 20;
  cuda::Context context_ = nullptr;
  cuda::AllocationProperties properties_;
  std::vector<cuda::AccessDescription> accesses_;  // this device, and the peers that can reach its memory
  std::mutex mappings_mutex_;
  std::map<Address, Bytes> mappings_;
};

}  // namespace gmlake
