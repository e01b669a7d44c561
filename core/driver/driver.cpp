#include "driver/driver.h"

#include <mutex>

namespace gmlake {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::success:
      return "success";
    case Status::out_of_memory:
      return "out of memory";
    case Status::invalid_value:
      return "invalid value";
    case Status::not_supported:
      return "not supported";
    case Status::not_ready:
      return "not ready";
    case Status::deinitialized:
      return "deinitialized";
    case Status::unknown:
      break;
  }
  return "unknown error";
}

std::string_view to_string(Call call) {
  static constexpr std::array<std::string_view, call_kinds> names{
      "reserve", "free_range",   "create",        "release", "map",   "unmap", "set_access", "allocate",
      "free",    "create_event", "destroy_event", "record",  "query", "wait",  "synchronize"};
  return names[static_cast<std::size_t>(call)];
}

CallCounts Driver::counts() const {
  std::lock_guard lock(lock_);
  return counts_;
}

template <typename Act>
Status Driver::call(Call kind, Act act) {
  std::unique_lock lock(lock_, std::defer_lock);
  if (serial_) lock.lock();
  const Outcome outcome = act();
  if (!serial_) lock.lock();
  CallCount& count = counts_[static_cast<std::size_t>(kind)];
  count.calls += outcome.handles;
  count.microseconds += outcome.microseconds;
  return outcome.status;
}

Status Driver::reserve(Bytes size, Address& range) {
  return call(Call::reserve, [&] { return do_reserve(size, range); });
}
Status Driver::free_range(Address range, Bytes size) {
  return call(Call::free_range, [&] { return do_free_range(range, size); });
}
Status Driver::create(Bytes size, std::span<Handle> handles, std::size_t& done) {
  done = 0;
  return call(Call::create, [&] {
    Outcome outcome = do_create(size, handles, done);
    outcome.handles = attempts(outcome, done);
    return outcome;
  });
}
Status Driver::release(Handle handle) {
  return call(Call::release, [&] { return do_release(handle); });
}
Status Driver::map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) {
  done = 0;
  return call(Call::map, [&] {
    Outcome outcome = do_map(at, size, handles, done);
    outcome.handles = attempts(outcome, done);
    return outcome;
  });
}
Status Driver::unmap(Address at, Bytes size) {
  return call(Call::unmap, [&] { return do_unmap(at, size); });
}
Status Driver::set_access(Address at, Bytes size) {
  return call(Call::set_access, [&] { return do_set_access(at, size); });
}
Status Driver::allocate(Bytes size, Address& at) {
  return call(Call::allocate, [&] { return do_allocate(size, at); });
}
Status Driver::free(Address at) {
  return call(Call::free, [&] { return do_free(at); });
}
Status Driver::create_event(Event& event) {
  return call(Call::create_event, [&] { return do_create_event(event); });
}
Status Driver::destroy_event(Event event) {
  return call(Call::destroy_event, [&] { return do_destroy_event(event); });
}
Status Driver::record(Event event, Stream stream) {
  return call(Call::record, [&] { return do_record(event, stream); });
}
Status Driver::query(Event event) {
  return call(Call::query, [&] { return do_query(event); });
}
Status Driver::wait(Stream stream, Event event) {
  return call(Call::wait, [&] { return do_wait(stream, event); });
}
Status Driver::synchronize_device() {
  return call(Call::synchronize, [&] { return do_synchronize_device(); });
}
Status Driver::synchronize(Event event) {
  return call(Call::synchronize, [&] { return do_synchronize(event); });
}

}  // namespace gmlake
