// The order of streams: which lane has waited for which, and what the device has finished. Memory that one stream used
// last may serve another only behind a *fence*: an event recorded on the first that the second waits for. The event is
// recorded at the moment of need, not at every free, so that programs that never share memory pay nothing.
// A *ticket* is the host's side of the same: it passes once everything before it has finished, and is what unmapping
// (which no stream orders) waits for.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/driver.h"
#include "order/clock.h"

namespace gmlake {

class Fences {
 public:
  explicit Fences(Driver& driver) : driver_(driver) {}
  ~Fences();
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  Lane lane(Stream stream) { return stream == last_stream_ && known_ ? last_lane_ : look_up(stream); }

  // The clock of memory that the lane uses now, and nobody used before.
  Clock now(Lane lane) const { return {lane, epoch_[lane]}; }
  // Memory with this clock is used by the lane now.
  void stamp(Clock& clock, Lane lane) const { clock.set(lane, epoch_[lane]); }

  // May a stream of this lane use the memory without waiting?
  bool settled(const Clock& clock, Lane lane) const {
    bool all = true;
    each_lane(clock.lanes() & others(lane), [&](Lane other) { all = all && clock.epoch(other) <= done_[lane][other]; });
    return all;
  }

  // Makes the stream wait for every use in the clock. False: the driver refused, the memory must not be used.
  [[nodiscard]] bool wait(const Clock& clock, Stream stream);

  struct Ticket {
    std::array<std::uint32_t, lane_count> epochs{};
    std::vector<Event> events;
  };

  // A ticket that passes when every use in the clock has finished. False: the driver refused, no ticket was made.
  [[nodiscard]] bool mark(const Clock& clock, Ticket& ticket);
  [[nodiscard]] bool passed(Ticket& ticket);       // asks without blocking
  [[nodiscard]] bool synchronize(Ticket& ticket);  // blocks
  // Blocks until every use so far has finished. False: the driver refused, work may be under way.
  [[nodiscard]] bool drain();

  // While captures are watched, a stream that is being captured is neither recorded nor made to wait, because that
  // would become part of the graph, and no event is asked about, because that would end the capture.
  void watch_captures(bool on) { watching_ = on; }
  bool capturing() const;  // is any known stream being captured?
  Stream stream(Lane lane) const { return streams_[lane].empty() ? 0 : streams_[lane].front(); }
  void everything(Clock& clock) const;  // a clock of all uses so far
  std::int64_t count() const { return fences_; }

 private:
  Lane look_up(Stream stream);
  bool record(Lane lane, std::vector<Event>& events);
  void finish(Ticket& ticket);
  bool captured(Stream stream) const;
  bool take_event(Event& event);
  void give_event(Event event) { spare_.push_back(event); }

  Driver& driver_;
  std::array<std::vector<Stream>, lane_count> streams_;
  std::array<std::uint32_t, lane_count> epoch_{1, 1, 1, 1, 1, 1, 1, 1};
  // done_[a][b]: the last epoch of lane b that lane a need not wait for. A lane is in order with itself, for ever,
  // except for the crowd, whose streams know nothing of each other.
  std::array<std::array<std::uint32_t, lane_count>, lane_count> done_ = in_order_with_itself();
  std::array<std::uint32_t, lane_count> finished_{};  // the last epoch that the device is known to have completed
  std::vector<Event> events_;                         // all there are
  std::vector<Event> spare_;                          // in no ticket
  std::vector<Event> recorded_;                       // for the wait under way
  Stream last_stream_ = 0;
  Lane last_lane_ = 0;
  bool known_ = false;
  bool watching_ = false;
  std::int64_t fences_ = 0;

  static constexpr std::array<std::array<std::uint32_t, lane_count>, lane_count> in_order_with_itself() {
    std::array<std::array<std::uint32_t, lane_count>, lane_count> done{};
    for (Lane lane = 0; lane < crowd; ++lane) done[lane][lane] = UINT32_MAX;
    return done;
  }
};

}  // namespace gmlake
