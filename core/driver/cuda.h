// The driver of a real device (or of the emulated one): documented calls of libcuda.so.1, in the device's primary
// context, from any thread. Strictness is the library's own; the only book kept here is what is mapped where, because
// the contract counts handles and the library does not say.
//
// Beyond the contract, memory can be shown to other processes (driver/cuda/sharing.cpp).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <span>
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

  // One mapping that another process may have too: an open file, which no other piece ever had the serial number of.
  struct Shared {
    int file = -1;
    Bytes size = 0;
    std::uint64_t serial = 0;
  };
  // The mappings that hold a run of addresses, the first of which begins at `begin`. The files stay ours, and open
  // until the memory is released. not_supported: memory of this device cannot be shared.
  [[nodiscard]] Status export_run(Address at, Bytes size, Address& begin, std::vector<Shared>& pieces);
  // Maps them one after the other. The files stay the caller's. What was imported is closed once the device is idle.
  [[nodiscard]] Status import_run(std::span<const Shared> pieces, Address& at);
  [[nodiscard]] Status close_run(Address at, Bytes size);

 private:
  Outcome do_reserve(Bytes size, Address& range) override;
  Outcome do_free_range(Address range, Bytes size) override;
  Outcome do_create(Bytes size, std::span<Handle> handles, std::size_t& done) override;
  Outcome do_release(Handle handle) override;
  Outcome do_map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) override;
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
  Outcome do_synchronize_device() override;

  void prepare_mapping(cuda::Device id);
  Outcome call(const std::function<cuda::Result()>& act) const;  // in the device's context

  const cuda::Functions& cuda_;
  int device_;
  Bytes granularity_ = Bytes{2} << 20;
  cuda::Context context_ = nullptr;
  cuda::AllocationProperties properties_;
  std::mutex accesses_mutex_;
  std::vector<cuda::AccessDescription> accesses_;  // this device, and the peers that can reach its memory
  std::atomic<bool> shareable_ = false;
  std::mutex mappings_mutex_;
  struct Mapping {
    Bytes size;
    Handle handle;
  };
  std::map<Address, Mapping> mappings_;
  std::map<Handle, Shared> exported_;  // guarded by the same mutex
  std::uint64_t exports_ = 0;
  void forget_export(Handle handle);
};

}  // namespace gmlake
