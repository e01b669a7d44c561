// The simulated driver: faults and modelled time around what simulated/ keeps.
#include "driver/simulated.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "driver/simulated/faults.h"
#include "driver/simulated/memory.h"
#include "driver/simulated/timeline.h"

namespace gmlake {
namespace {

constexpr Bytes finest_granularity = 512;
constexpr Bytes largest_address_space = Bytes{1} << 62;

// Published costs are for handles of 2 MiB; what `count` handles have beyond that, in MiB.
double further_mib(Bytes bytes, std::uint64_t count = 1) {
  return std::max(0.0, static_cast<double>(bytes) / static_cast<double>(MiB) - 2.0 * static_cast<double>(count));
}

const SimulatedOptions& checked(const SimulatedOptions& options) {
  if (options.granularity == 0 || options.granularity % finest_granularity != 0)
    throw InvalidArgument("a granularity of " + std::to_string(options.granularity) +
                          " bytes is impossible; it must be a multiple of 512 bytes");
  if (options.address_space < options.granularity || options.address_space > largest_address_space)
    throw InvalidArgument("an address space of " + std::to_string(options.address_space) +
                          " bytes is impossible; it must hold one granule and at most 2^62 bytes");
  return options;
}

}  // namespace

struct SimulatedDriver::State {
  explicit State(const SimulatedOptions& chosen)
      : options(checked(chosen)), memory(options.capacity, options.granularity, options.address_space) {}

  const SimulatedOptions options;
  SimulatedMemory memory;
  Timeline timeline;
  Faults faults;

  bool lost = false;

  // One call of the device: a fault injected for it comes first; time passes only if it succeeds.
  template <typename Act>
  Outcome call(Call kind, double microseconds, Act act) {
    Status status = lost ? Status::unknown : faults.next(kind);
    if (status == Status::success) status = act();
    return {status, status == Status::success ? microseconds : 0};
  }

  // The same for calls in a row: act(count) makes as many as no fault stops.
  template <typename Act>
  Outcome calls(Call kind, double microseconds, std::size_t count, std::size_t& done, Act act) {
    if (lost) return {Status::unknown, 0};
    const std::uint64_t allowed = std::min<std::uint64_t>(count, faults.until_next(kind));
    Status status = allowed > 0 ? act(allowed) : Status::success;
    faults.pass(kind, done);
    if (status != Status::success)
      faults.pass(kind, 1);
    else if (done < count)
      status = faults.next(kind);
    return {status, static_cast<double>(done) * microseconds};
  }
};

SimulatedDriver::SimulatedDriver(const SimulatedOptions& options)
    : Driver(Calls::serial), state_(std::make_unique<State>(options)) {}
SimulatedDriver::~SimulatedDriver() = default;

int SimulatedDriver::device() const {
  return state_->options.device;
}
Bytes SimulatedDriver::granularity() const {
  return state_->options.granularity;
}

Status SimulatedDriver::memory_info(Bytes& free, Bytes& total) {
  std::lock_guard lock(lock_);
  if (state_->lost) return Status::unknown;
  total = state_->options.capacity;
  free = total - state_->memory.used();
  return Status::success;
}

Status SimulatedDriver::is_capturing(Stream stream, bool& capturing) {
  std::lock_guard lock(lock_);
  capturing = state_->timeline.capturing(stream);
  return Status::success;
}

void SimulatedDriver::fail(Call call, std::uint64_t nth, Status status, std::uint64_t times) {
  if (nth == 0) throw InvalidArgument("call number 0 cannot fail; 1 is the next call");
  std::lock_guard lock(lock_);
  state_->faults.add(call, nth, status, times);
}

void SimulatedDriver::clear_faults() {
  std::lock_guard lock(lock_);
  state_->faults.clear();
}

void SimulatedDriver::lose() {
  std::lock_guard lock(lock_);
  state_->lost = true;
}

std::uint64_t SimulatedDriver::failures() const {
  std::lock_guard lock(lock_);
  return state_->faults.failures();
}

void SimulatedDriver::hold(Stream stream) {
  std::lock_guard lock(lock_);
  state_->timeline.hold(stream);
}

void SimulatedDriver::finish(Stream stream) {
  std::lock_guard lock(lock_);
  state_->timeline.finish(stream);
}

void SimulatedDriver::set_capturing(Stream stream, bool capturing) {
  std::lock_guard lock(lock_);
  state_->timeline.set_capturing(stream, capturing);
}

void SimulatedDriver::capture_at_next_call(Stream stream) {
  std::lock_guard lock(lock_);
  state_->timeline.capture_at_next_call(stream);
}

void SimulatedDriver::hand_out(const std::vector<Address>& addresses) {
  std::lock_guard lock(lock_);
  state_->memory.hand_out(addresses);
}

void SimulatedDriver::hand_out_ranges(const std::vector<Address>& addresses) {
  std::lock_guard lock(lock_);
  state_->memory.hand_out_ranges(addresses);
}

void SimulatedDriver::keep_places() {
  std::lock_guard lock(lock_);
  if (state_->memory.used() != 0) throw InvalidArgument("places cannot be kept: the device holds memory already");
  state_->memory.keep_places();
}

std::vector<PlaceChange> SimulatedDriver::place_changes() {
  std::lock_guard lock(lock_);
  return state_->memory.place_changes();
}

std::vector<Piece> SimulatedDriver::pieces(Address at, Bytes size) const {
  std::lock_guard lock(lock_);
  return state_->memory.pieces(at, size);
}

Bytes SimulatedDriver::physical_bytes() const {
  std::lock_guard lock(lock_);
  return state_->memory.used();
}

std::size_t SimulatedDriver::handles() const {
  std::lock_guard lock(lock_);
  return state_->memory.handles();
}

std::size_t SimulatedDriver::mappings() const {
  std::lock_guard lock(lock_);
  return state_->memory.mappings();
}

std::size_t SimulatedDriver::ranges() const {
  std::lock_guard lock(lock_);
  return state_->memory.ranges();
}

std::size_t SimulatedDriver::events() const {
  std::lock_guard lock(lock_);
  return state_->timeline.events();
}

bool SimulatedDriver::accessible(Address at, Bytes size) const {
  std::lock_guard lock(lock_);
  return state_->memory.accessible(at, size);
}

Handle SimulatedDriver::handle_at(Address at) const {
  std::lock_guard lock(lock_);
  return state_->memory.handle_at(at);
}

Bytes SimulatedDriver::offset_at(Address at) const {
  std::lock_guard lock(lock_);
  return state_->memory.offset_at(at);
}

Driver::Outcome SimulatedDriver::do_reserve(Bytes size, Address& range) {
  State& s = *state_;
  return s.call(Call::reserve, s.options.cost.reserve, [&] { return s.memory.reserve(size, range); });
}

Driver::Outcome SimulatedDriver::do_free_range(Address range, Bytes size) {
  State& s = *state_;
  return s.call(Call::free_range, s.options.cost.free_range, [&] { return s.memory.free_range(range, size); });
}

Driver::Outcome SimulatedDriver::do_create(Bytes size, std::span<Handle> handles, std::size_t& done) {
  State& s = *state_;
  const double cost = s.options.cost.create + further_mib(size) * s.options.cost.create_per_mib;
  return s.calls(Call::create, cost, handles.size(), done,
                 [&](std::size_t count) { return s.memory.create(size, handles.first(count), done); });
}

Driver::Outcome SimulatedDriver::do_release(Handle handle) {
  State& s = *state_;
  return s.call(Call::release, s.options.cost.release, [&] { return s.memory.release(handle); });
}

Driver::Outcome SimulatedDriver::do_map(Address at, Bytes size, std::span<const Handle> handles, std::size_t& done) {
  State& s = *state_;
  return s.calls(Call::map, s.options.cost.map, handles.size(), done,
                 [&](std::size_t count) { return s.memory.map(at, size, handles.first(count), done); });
}

Driver::Outcome SimulatedDriver::do_unmap(Address at, Bytes size) {
  State& s = *state_;
  std::uint64_t handles = 0;
  Outcome outcome = s.call(Call::unmap, 0, [&] { return s.memory.unmap(at, size, handles); });
  if (outcome.status == Status::success) {
    outcome.handles = handles;
    outcome.microseconds = static_cast<double>(handles) * s.options.cost.unmap;
  }
  return outcome;
}

Driver::Outcome SimulatedDriver::do_set_access(Address at, Bytes size) {
  State& s = *state_;
  std::uint64_t handles = 0;
  Outcome outcome = s.call(Call::set_access, 0, [&] { return s.memory.set_access(at, size, handles); });
  if (outcome.status == Status::success)
    outcome.microseconds = s.options.cost.access + static_cast<double>(handles - 1) * s.options.cost.access_further +
                           further_mib(size, handles) * s.options.cost.access_per_mib;
  return outcome;
}

Driver::Outcome SimulatedDriver::do_allocate(Bytes size, Address& at) {
  State& s = *state_;
  const double mib = static_cast<double>(size) / static_cast<double>(MiB);
  const double cost = s.options.cost.allocate + mib * s.options.cost.allocate_per_mib;
  return s.call(Call::allocate, cost, [&] { return s.memory.allocate(size, at); });
}

Driver::Outcome SimulatedDriver::do_free(Address at) {
  State& s = *state_;
  return s.call(Call::free, s.options.cost.free, [&] { return s.memory.free(at); });
}

Driver::Outcome SimulatedDriver::do_create_event(Event& event) {
  State& s = *state_;
  return s.call(Call::create_event, 0, [&] {
    event = s.timeline.create();
    return Status::success;
  });
}

Driver::Outcome SimulatedDriver::do_destroy_event(Event event) {
  State& s = *state_;
  return s.call(Call::destroy_event, 0, [&] { return s.timeline.destroy(event); });
}

Driver::Outcome SimulatedDriver::do_record(Event event, Stream stream) {
  State& s = *state_;
  return s.call(Call::record, s.options.cost.record, [&] { return s.timeline.record(event, stream); });
}

// A query that finds work under way has succeeded in asking: it costs what any query costs.
Driver::Outcome SimulatedDriver::do_query(Event event) {
  State& s = *state_;
  Outcome outcome = s.call(Call::query, s.options.cost.query, [&] { return s.timeline.query(event); });
  if (outcome.status == Status::not_ready) outcome.microseconds = s.options.cost.query;
  return outcome;
}

Driver::Outcome SimulatedDriver::do_wait(Stream stream, Event event) {
  State& s = *state_;
  return s.call(Call::wait, s.options.cost.wait, [&] { return s.timeline.wait(stream, event); });
}

Driver::Outcome SimulatedDriver::do_synchronize(Event event) {
  State& s = *state_;
  return s.call(Call::synchronize, s.options.cost.synchronize, [&] { return s.timeline.synchronize(event); });
}

Driver::Outcome SimulatedDriver::do_synchronize_device() {
  State& s = *state_;
  return s.call(Call::synchronize, s.options.cost.synchronize, [&] { return s.timeline.synchronize_all(); });
}

}  // namespace gmlake
