// A device made of book-keeping: capacity, granularity, the strictness of the real driver, modelled time and injected
// faults. No memory stands behind the addresses. Replay and most tests run on it. Its parts are in simulated/.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "driver/cost.h"
#include "driver/driver.h"
#include "driver/simulated/places.h"

namespace gmlake {

struct SimulatedOptions {
  Bytes capacity = std::numeric_limits<Bytes>::max();
  Bytes granularity = Bytes{2} << 20;      // a multiple of 512
  Bytes address_space = Bytes{128} << 40;  // reserve fails beyond it
  CostTable cost = cost_table("a100");
  int device = 0;
};

class SimulatedDriver final : public Driver {
 public:
  explicit SimulatedDriver(const SimulatedOptions& options = {});
  ~SimulatedDriver() override;

  int device() const override;
  Bytes granularity() const override;
  Status memory_info(Bytes& free, Bytes& total) override;
  Status is_capturing(Stream stream, bool& capturing) override;

  // Fault injection: the nth call of this kind from now (1 = the next) returns status, and so do the `times - 1` after.
  void fail(Call call, std::uint64_t nth, Status status = Status::out_of_memory, std::uint64_t times = 1);
  void clear_faults();
  void lose();  // from now on every call fails, as on a device that an earlier error has made unusable
  std::uint64_t failures() const;  // calls that injected faults have made fail so far

  // Emulated time: by default work on a stream finishes at once. After hold(stream) it does not until finish(stream)
  // lets everything issued so far finish and ends the hold. What waits for held work is held with it. synchronize
  // finishes what it waits for, and no more.
  void hold(Stream stream);
  void finish(Stream stream);
  void set_capturing(Stream stream, bool capturing);
  void capture_at_next_call(Stream stream);  // record or wait, as if another thread had begun it just before

  // The next calls of allocate() return these addresses, first to last: replays a recorded history. Where an
  // address is 0 or still taken, the driver chooses one itself.
  void hand_out(const std::vector<Address>& addresses);
  // The same for the next calls of reserve().
  void hand_out_ranges(const std::vector<Address>& addresses);

  // For memory maps: from now on every piece of physical memory has a place on the device; nothing may exist yet.
  void keep_places();
  std::vector<PlaceChange> place_changes();                 // since they were last asked for
  std::vector<Piece> pieces(Address at, Bytes size) const;  // what a span consists of, in the order of its addresses

  // What a leak check asks.
  Bytes physical_bytes() const;  // of handles and allocations that exist, mapped-but-released ones included
  std::size_t handles() const;
  std::size_t mappings() const;
  std::size_t ranges() const;
  std::size_t events() const;
  bool accessible(Address at, Bytes size) const;  // every byte mapped and granted
  Handle handle_at(Address at) const;             // 0 when nothing is mapped there
  Bytes offset_at(Address at) const;              // in the handle; one handle may be mapped twice side by side

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

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gmlake
