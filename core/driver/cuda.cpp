#include "driver/cuda.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.h"
#include "driver/cuda/library.h"

namespace gmlake {
namespace {

using cuda::Result;

Status to_status(Result result) {
  switch (result) {
    case Result::success:
      return Status::success;
    case Result::out_of_memory:
      return Status::out_of_memory;
    case Result::not_ready:
      return Status::not_ready;
    case Result::deinitialized:
      return Status::deinitialized;
    case Result::not_supported:
      return Status::not_supported;
    case Result::invalid_value:
    case Result::invalid_device:
    case Result::map_failed:
    case Result::unmap_failed:
    case Result::already_mapped:
    case Result::not_mapped:
    case Result::invalid_handle:
    case Result::not_found:
      return Status::invalid_value;
    default:
      return Status::unknown;
  }
}

// Makes the device's context current for a while, and lets calls through that a stream capture on this thread would
// otherwise turn into an error: none of ours is part of the captured work.
class Scope {
 public:
  Scope(const cuda::Functions& functions, cuda::Context context) : cuda_(functions) {
    cuda::Context current = nullptr;
    result_ = cuda_.context_get(&current);
    if (result_ == Result::success && current != context) {
      result_ = cuda_.context_push(context);
      pushed_ = result_ == Result::success;
    }
    if (result_ == Result::success) relaxed_ = cuda_.exchange_capture_mode(&mode_) == Result::success;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    cuda::Context popped = nullptr;
    if (relaxed_) cuda_.exchange_capture_mode(&mode_);
    if (pushed_) cuda_.context_pop(&popped);
  }

  Result result() const { return result_; }

 private:
  const cuda::Functions& cuda_;
  Result result_ = Result::success;
  bool pushed_ = false;
  bool relaxed_ = false;
  int mode_ = cuda::capture_mode_relaxed;
};

void require(const cuda::Functions& functions, Result result, int device, const char* what) {
  if (result != Result::success)
    throw DriverError("device " + std::to_string(device) + ": " + what +
                      " failed: " + cuda::describe(functions, result) + "; see what nvidia-smi says");
}

int existing(int device) {
  const int count = cuda::device_count();
  if (count == 0) throw DriverError("no CUDA device was found; see what nvidia-smi says, or use the simulated driver");
  if (device < 0 || device >= count)
    throw InvalidArgument("device " + std::to_string(device) + " does not exist; expected 0 to " +
                          std::to_string(count - 1));
  return device;
}

cuda::EventHandle as_event(Event event) {
  return reinterpret_cast<cuda::EventHandle>(event);
}
cuda::StreamHandle as_stream(Stream stream) {
  return reinterpret_cast<cuda::StreamHandle>(stream);
}

}  // namespace

CudaDriver::CudaDriver(int device, Needs needs)
    : Driver(Calls::concurrent), cuda_(cuda::library()), device_(existing(device)) {
  cuda::Device id = 0;
  require(cuda_, cuda_.device_get(&id, device_), device_, "finding it");
  properties_.location.id = id;
  if (needs == Needs::virtual_memory) prepare_mapping(id);
  require(cuda_, cuda_.primary_context_retain(&context_, id), device_, "starting its context");
}

void CudaDriver::prepare_mapping(cuda::Device id) {
  int supported = 0;
  require(cuda_, cuda_.device_attribute(&supported, cuda::Attribute::virtual_memory_management, id), device_,
          "asking for virtual memory management");
  if (supported == 0)
    throw NoVirtualMemory("device " + std::to_string(device_) +
                          " has no virtual memory management, which stitching needs");

  int rdma = 0;
  if (cuda_.device_attribute(&rdma, cuda::Attribute::rdma_with_virtual_memory, id) == Result::success && rdma != 0)
    properties_.flags.rdma_capable = 1;  // otherwise network cards could not reach what we allocate
  int file = 0;
  shareable_ = cuda_.device_attribute(&file, cuda::Attribute::export_as_file, id) == Result::success && file != 0;
  std::size_t granularity = 0;
  require(cuda_, cuda_.granularity(&granularity, &properties_, cuda::minimum_granularity), device_,
          "asking for the granularity");
  granularity_ = granularity;

  // All peers that can reach it, from the start: within one process NCCL reads other devices' tensors and asks nobody.
  accesses_.push_back({properties_.location});
  for (int peer = 0; peer < cuda::device_count(); ++peer) {
    int reachable = 0;
    cuda::Device peer_id = 0;
    if (peer != device_ && cuda_.device_get(&peer_id, peer) == Result::success &&
        cuda_.device_can_access_peer(&reachable, peer_id, id) == Result::success && reachable != 0)
      accesses_.push_back({cuda::Location{.id = peer_id}});
  }
}

CudaDriver::~CudaDriver() {
  cuda_.primary_context_release(properties_.location.id);
}

int CudaDriver::device_count() {
  return cuda::device_count();
}

Driver::Outcome CudaDriver::call(const std::function<Result()>& act) const {
  const auto start = std::chrono::steady_clock::now();
  const Scope scope(cuda_, context_);
  const Result result = scope.result() == Result::success ? act() : scope.result();
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  return {to_status(result), elapsed.count()};
}

Status CudaDriver::memory_info(Bytes& free, Bytes& total) {
  std::size_t free_now = 0, total_now = 0;
  const Status status = call([&] { return cuda_.memory_info(&free_now, &total_now); }).status;
  if (status == Status::success) {
    free = free_now;
    total = total_now;
  }
  return status;
}

Status CudaDriver::is_capturing(Stream stream, bool& capturing) {
  int state = cuda::capture_none;
  bool implied = false;  // the default stream cannot even be asked while a stream captures that is in order with it
  const Status status = call([&] {
                          const Result result = cuda_.stream_is_capturing(as_stream(stream), &state);
                          implied = result == Result::capture_implicit;
                          return implied ? Result::success : result;
                        }).status;
  if (status == Status::success) capturing = implied || state != cuda::capture_none;
  return status;
}

Driver::Outcome CudaDriver::do_reserve(Bytes size, Address& range) {
  cuda::DevicePointer at = 0;
  const Outcome outcome = call([&] { return cuda_.address_reserve(&at, size, 0, 0, 0); });
  if (outcome.status == Status::success) range = at;
  return outcome;
}

Driver::Outcome CudaDriver::do_free_range(Address range, Bytes size) {
  return call([&] { return cuda_.address_free(range, size); });
}

Driver::Outcome CudaDriver::do_create(Bytes size, std::span<Handle> handles, std::size_t& done) {
  auto create = [&](cuda::AllocationHandle& created) {
    cuda::AllocationProperties properties = properties_;
    if (!shareable_) return cuda_.create(&created, size, &properties, 0);
    properties.handle_types = cuda::as_file;
    const Result shared = cuda_.create(&created, size, &properties, 0);
    if (shared != Result::not_supported && shared != Result::not_permitted && shared != Result::invalid_value)
      return shared;
    properties.handle_types = 0;
    const Result result = cuda_.create(&created, size, &properties, 0);
    if (result == Result::success) shareable_ = false;  // some virtual machines promise more than they allow
    return result;
  };
  return call([&] {
    for (Handle& handle : handles) {
      cuda::AllocationHandle created = 0;
      if (const Result result = create(created); result != Result::success) return result;
      handle = created;
      ++done;
    }
    return Result::success;
  });
}

Driver::Outcome CudaDriver::do_release(Handle handle) {
  forget_export(handle);
  return call([&] { return cuda_.release(handle); });
}

Driver::Outcome CudaDriver::do_map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) {
  const Outcome outcome = call([&] {
    for (const Handle handle : handles) {
      const Result result = cuda_.map(at + done * size, size, 0, handle, 0);
      if (result != Result::success) return result;
      ++done;
    }
    return Result::success;
  });
  std::lock_guard lock(mappings_mutex_);
  for (std::size_t i = 0; i < done; ++i) mappings_.emplace(at + i * size, Mapping{size, handles[i]});
  return outcome;
}

Driver::Outcome CudaDriver::do_unmap(Address at, Bytes size) {
  std::lock_guard lock(mappings_mutex_);  // held over the call: the address may be mapped again right after it
  Outcome outcome = call([&] { return cuda_.unmap(at, size); });
  if (outcome.status == Status::success) {
    const auto first = mappings_.lower_bound(at);
    const auto last = mappings_.lower_bound(at + size);
    outcome.handles = static_cast<std::uint64_t>(std::distance(first, last));
    mappings_.erase(first, last);
  }
  return outcome;
}

Driver::Outcome CudaDriver::do_set_access(Address at, Bytes size) {
  std::lock_guard lock(accesses_mutex_);
  return call([&] {
    auto grant = [&](const cuda::AccessDescription* to, std::size_t count) {
      return cuda_.set_access(at, size, to, count);
    };
    const Result all = grant(accesses_.data(), accesses_.size());
    if (all == Result::success || accesses_.size() == 1) return all;
    // A machine may have more devices than one of them can have peers. Only this device must have access.
    const Result own = grant(accesses_.data(), 1);
    if (own == Result::success)
      accesses_.erase(std::remove_if(accesses_.begin() + 1, accesses_.end(),
                                     [&](const auto& peer) { return grant(&peer, 1) != Result::success; }),
                      accesses_.end());
    return own;
  });
}

Driver::Outcome CudaDriver::do_allocate(Bytes size, Address& at) {
  cuda::DevicePointer allocated = 0;
  const Outcome outcome = call([&] { return cuda_.allocate(&allocated, size); });
  if (outcome.status == Status::success) at = allocated;
  return outcome;
}

Driver::Outcome CudaDriver::do_free(Address at) {
  return call([&] { return cuda_.free(at); });
}

Driver::Outcome CudaDriver::do_create_event(Event& event) {
  cuda::EventHandle created = nullptr;
  const Outcome outcome = call([&] { return cuda_.event_create(&created, cuda::event_without_timing); });
  if (outcome.status == Status::success) event = reinterpret_cast<Event>(created);
  return outcome;
}

Driver::Outcome CudaDriver::do_destroy_event(Event event) {
  return call([&] { return cuda_.event_destroy(as_event(event)); });
}

Driver::Outcome CudaDriver::do_record(Event event, Stream stream) {
  return call([&] {
    const Result result = cuda_.event_record(as_event(event), as_stream(stream));
    if (result != Result::invalid_handle) return result;
    // A stream of another device takes none of our events, and may be the last to use memory of this one. To wait for
    // one that captures would end the capture.
    int state = cuda::capture_none;
    if (cuda_.stream_is_capturing(as_stream(stream), &state) == Result::success && state != cuda::capture_none)
      return Result::not_permitted;
    const Result waited = cuda_.stream_synchronize(as_stream(stream));
    return waited == Result::success ? result : waited;
  });
}

Driver::Outcome CudaDriver::do_query(Event event) {
  return call([&] { return cuda_.event_query(as_event(event)); });
}

Driver::Outcome CudaDriver::do_wait(Stream stream, Event event) {
  return call([&] { return cuda_.stream_wait_event(as_stream(stream), as_event(event), 0); });
}

Driver::Outcome CudaDriver::do_synchronize(Event event) {
  return call([&] { return cuda_.event_synchronize(as_event(event)); });
}

Driver::Outcome CudaDriver::do_synchronize_device() {
  return call([&] { return cuda_.context_synchronize(); });
}

}  // namespace gmlake
