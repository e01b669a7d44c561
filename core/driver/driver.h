// The driver contract: everything an allocator may ask of a device, in about twenty calls. One object per device.
//
//   reserve / free_range     a span of addresses; only an empty range is freed
//   create / release         physical memory; released memory lives on until its last mapping goes
//   map / unmap              a handle is mapped whole, at offset 0, where nothing is; whole mappings are unmapped
//   set_access               must follow map before the memory is touched; whole mappings again
//   allocate / free          the driver's own one-call allocation (cuMemAlloc), for the allocators we compare with
//   memory_info              free and total bytes of the device
//   record, query, wait ...  the order of work on streams
//
// Sizes and addresses are multiples of granularity() in every virtual-memory call. unmap is not ordered with streams:
// the caller makes sure that nothing still uses the memory. A call that fails changes nothing. Any thread may call.
// Handles of one size are created and mapped in runs: what surrounds a call (a lock, the device's context) is then paid
// for once.
//
// The public methods call the implementation's do_ method and count what it reports, by kind; an implementation never
// counts. One that is serial is called by one thread at a time, under the lock that guards the counts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/lock.h"
#include "base/vocabulary.h"

namespace gmlake {

enum class Status : std::uint8_t {
  success,
  out_of_memory,
  invalid_value,
  not_supported,
  not_ready,      // query: work before the event has not finished
  deinitialized,  // the process is ending and the driver has gone
  unknown,
};
std::string_view to_string(Status status);
// For whoever gives something back or waits: a driver that has gone has nothing left to do.
constexpr bool succeeded(Status status) {
  return status == Status::success || status == Status::deinitialized;
}

enum class Call : std::uint8_t {
  // memory
  reserve,
  free_range,
  create,
  release,
  map,
  unmap,
  set_access,
  allocate,
  free,
  // order
  create_event,
  destroy_event,
  record,
  query,
  wait,
  synchronize,
};
inline constexpr std::size_t call_kinds = static_cast<std::size_t>(Call::synchronize) + 1;
std::string_view to_string(Call call);

struct CallCount {
  std::uint64_t calls = 0;  // handles for create, release, map, unmap; calls for the rest; failed calls count one
  double microseconds = 0;  // measured on a real device, modelled on the simulated one
};
using CallCounts = std::array<CallCount, call_kinds>;

class Driver {
 public:
  enum class Calls : std::uint8_t { serial, concurrent };
  explicit Driver(Calls calls) : serial_(calls == Calls::serial) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  virtual int device() const = 0;
  virtual Bytes granularity() const = 0;  // of handles and mappings: 2 MiB on every card we know

  [[nodiscard]] Status reserve(Bytes size, Address& range);
  [[nodiscard]] Status free_range(Address range, Bytes size);
  // A run: each handle is a call of the device, mapped right behind the one before. It ends with the first that is
  // refused; `done` of them are done.
  [[nodiscard]] Status create(Bytes size, std::span<Handle> handles, std::size_t& done);
  [[nodiscard]] Status map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done);
  [[nodiscard]] Status create(Bytes size, Handle& handle) {
    std::size_t done = 0;
    return create(size, std::span(&handle, 1), done);
  }
  [[nodiscard]] Status map(Address at, Bytes size, Handle handle) {
    std::size_t done = 0;
    return map(at, size, std::span(&handle, 1), done);
  }
  [[nodiscard]] Status release(Handle handle);
  [[nodiscard]] Status unmap(Address at, Bytes size);  // may span several whole mappings
  [[nodiscard]] Status set_access(Address at, Bytes size);
  [[nodiscard]] Status allocate(Bytes size, Address& at);
  [[nodiscard]] Status free(Address at);

  [[nodiscard]] virtual Status memory_info(Bytes& free, Bytes& total) = 0;

  [[nodiscard]] Status create_event(Event& event);
  [[nodiscard]] Status destroy_event(Event event);
  // invalid_value: the stream does not exist any more, or it is another device's, and was waited for.
  [[nodiscard]] Status record(Event event, Stream stream);
  [[nodiscard]] Status query(Event event);  // success: all work before the record has finished
  [[nodiscard]] Status wait(Stream stream, Event event);
  [[nodiscard]] Status synchronize(Event event);
  [[nodiscard]] Status synchronize_device();  // all work of every stream has finished
  [[nodiscard]] virtual Status is_capturing(Stream stream, bool& capturing) = 0;

  CallCounts counts() const;

 protected:
  struct Outcome {
    Status status = Status::success;
    double microseconds = 0;
    std::uint64_t handles = 1;  // that were created, mapped or unmapped, and one that was refused
  };

  mutable Lock lock_;  // guards the counts, and what a serial implementation has

  virtual Outcome do_reserve(Bytes size, Address& range) = 0;
  virtual Outcome do_free_range(Address range, Bytes size) = 0;
  virtual Outcome do_create(Bytes size, std::span<Handle> handles, std::size_t& done) = 0;
  virtual Outcome do_release(Handle handle) = 0;
  virtual Outcome do_map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) = 0;
  virtual Outcome do_unmap(Address at, Bytes size) = 0;
  virtual Outcome do_set_access(Address at, Bytes size) = 0;
  virtual Outcome do_allocate(Bytes size, Address& at) = 0;
  virtual Outcome do_free(Address at) = 0;
  virtual Outcome do_create_event(Event& event) = 0;
  virtual Outcome do_destroy_event(Event event) = 0;
  virtual Outcome do_record(Event event, Stream stream) = 0;
  virtual Outcome do_query(Event event) = 0;
  virtual Outcome do_wait(Stream stream, Event event) = 0;
  virtual Outcome do_synchronize(Event event) = 0;
  virtual Outcome do_synchronize_device() = 0;

 private:
  template <typename Act>
  Status call(Call kind, Act act);
  static std::uint64_t attempts(const Outcome& outcome, std::size_t done) {
    return outcome.status == Status::success ? done : done + 1;
  }

  const bool serial_;
  CallCounts counts_{};
};

}  // namespace gmlake
