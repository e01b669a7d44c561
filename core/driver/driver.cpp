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

Status Driver::count(Call call, const Outcome& outcome) {
  std::lock_guard lock(lock_);
  CallCount& count = counts_[static_cast<std::size_t>(call)];
  count.calls += outcome.handles;
  count.microseconds += outcome.microseconds;
  return outcome.status;
}

Status Driver::reserve(Bytes size, Address& range) {
  return count(Call::reserve, do_reserve(size, range));
}
Status Driver::free_range(Address range, Bytes size) {
  return count(Call::free_range, do_free_range(range, size));
}
Status Driver::create(Bytes size, Handle& handle) {
  return count(Call::create, do_create(size, handle));
}
Status Driver::release(Handle handle) {
  return count(Call::release, do_release(handle));
}
Status Driver::map(Address at, Bytes size, Handle handle) {
  return count(Call::map, do_map(at, size, handle));
}
Status Driver::unmap(Address at, Bytes size) {
  return count(Call::unmap, do_unmap(at, size));
}
Status Driver::set_access(Address at, Bytes size) {
  return count(Call::set_access, do_set_access(at, size));
}
Status Driver::allocate(Bytes size, Address& at) {
  return count(Call::allocate, do_allocate(size, at));
}
Status Driver::free(Address at) {
  return count(Call::free, do_free(at));
}
Status Driver::create_event(Event& event) {
  return count(Call::create_event, do_create_event(event));
}
Status Driver::destroy_event(Event event) {
  return count(Call::destroy_event, do_destroy_event(event));
}
Status Driver::record(Event event, Stream stream) {
  return count(Call::record, do_record(event, stream));
}
Status Driver::query(Event event) {
  return count(Call::query, do_query(event));
}
Status Driver::wait(Stream stream, Event event) {
  return count(Call::wait, do_wait(stream, event));
}
Status Driver::synchronize(Event event) {
  return count(Call::synchronize, do_synchronize(event));
}

}  // namespace gmlake
