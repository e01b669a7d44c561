// The order of streams: what each lane need not wait for any more, and what the device has finished. Memory that one
// lane has released may serve another only behind a *fence*: an event recorded on every other stream that the taker
// waits for. Events are recorded at the moment of need, not at every free, so that programs that never share memory pay
// nothing. A *ticket* is the host's side of the same: it passes once everything before it has finished, and is what
// unmapping (which no stream orders) waits for.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "driver/driver.h"
#include "order/clock.h"

namespace gmlake {

class Fences {
 public:
  explicit Fences(Driver& driver) : driver_(driver) { behind_.fill(all_moments); }
  ~Fences();
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  Lane lane(Stream stream) { return stream == last_stream_ && known_ ? last_lane_ : look_up(stream); }
  Lane lanes() const { return lanes_; }  // known so far: those below this one

  // The clock of memory that the lane releases now, and nobody had before.
  Clock now(Lane lane) const { return {lane, now_}; }
  // Memory with this clock is released by the lane now.
  void stamp(Clock& clock, Lane lane) const { clock.release(lane, now_); }

  // May a stream of this lane use the memory without waiting?
  bool settled(const Clock& clock, Lane lane) const { return clock.concerning(lane) <= behind_[lane]; }

  // Is everything known to have finished that may use the memory?
  bool finished(const Clock& clock) const {
    return std::ranges::all_of(std::span(finished_).first(lanes_),
                               [&](Moment moment) { return clock.last() <= moment; });
  }

  // Makes the stream wait for everything that may use the memory. False: the driver refused, it must not be used.
  [[nodiscard]] bool wait(const Clock& clock, Stream stream);

  struct Ticket {
    std::array<Moment, lane_count> covers{};  // by lane: what has passed when the ticket has
    std::vector<Event> events;
  };

  // A ticket that passes when everything has finished that these lanes were told to do up to a moment; that may use
  // memory with this clock; that anybody was told so far. False: the driver refused, no ticket was made.
  [[nodiscard]] bool mark(LaneSet lanes, Moment moment, Ticket& ticket);
  [[nodiscard]] bool mark(const Clock& clock, Ticket& ticket) { return mark(everybody(), clock.last(), ticket); }
  [[nodiscard]] bool mark_everything(Ticket& ticket) { return mark(everybody(), now_, ticket); }
  [[nodiscard]] bool passed(Ticket& ticket);       // asks without blocking
  [[nodiscard]] bool synchronize(Ticket& ticket);  // blocks
  // Blocks until the device is idle. False: the driver refused, work may be under way.
  [[nodiscard]] bool drain();

  // While captures are watched, a stream that is being captured is neither recorded nor made to wait, because that
  // would become part of the graph, and no event is asked about, because that would end the capture. Nor is it while a
  // stream may be captured that was never heard of.
  void watch_captures(bool on, bool unheard_of) {
    watching_ = on;
    unheard_of_ = unheard_of;
  }
  bool capturing() const;  // is any stream being captured, as far as is known?
  Stream stream(Lane lane) const { return streams_[lane].empty() ? 0 : streams_[lane].front(); }
  std::int64_t count() const { return fences_; }
  void reset_count() { fences_ = 0; }

 private:
  static constexpr Moment all_moments = std::numeric_limits<Moment>::max();

  Lane look_up(Stream stream);
  LaneSet everybody() const { return static_cast<LaneSet>((std::uint64_t{1} << lanes_) - 1); }
  // The lanes whose work is not in order with this one's. The crowd is not even in order with itself.
  LaneSet others(Lane lane) const { return lane == crowd ? everybody() : everybody() & ~only(lane); }
  bool record(Lane lane, std::vector<Event>& events, Moment& covered);
  // What is issued from now on belongs to the next moment. The last of all never ends: nothing is ever known to be
  // behind it, and whoever needs to be waits again.
  Moment end_moment() { return now_ < all_moments ? now_++ : all_moments - 1; }
  void finish(Ticket& ticket);
  void renew(Ticket& ticket);
  void refresh(Lane lane);
  bool captured(Stream stream) const;
  bool lost(Lane lane, Stream stream);
  bool take_event(Event& event);
  void give_event(Event event) { spare_.push_back(event); }

  Driver& driver_;
  Lane lanes_ = 0;
  std::array<std::vector<Stream>, lane_count> streams_;
  LaneSet gone_ = 0;  // lanes whose stream was destroyed
  Moment now_ = 1;
  Moment idle_ = 0;  // when the device was idle for the last time
  // done_[a][b]: lane a need not wait for what lane b was told up to this moment.
  std::array<std::array<Moment, lane_count>, lane_count> done_{};
  std::array<Moment, lane_count> behind_;      // the least of those: up to it a lane is behind everybody
  std::array<Moment, lane_count> finished_{};  // up to it the device is known to have completed a lane's work
  std::vector<Event> events_;                  // all there are
  std::vector<Event> spare_;                   // in no ticket
  std::vector<Event> recorded_;                // for the wait under way
  Stream last_stream_ = 0;
  Lane last_lane_ = 0;
  bool known_ = false;
  bool watching_ = false;
  bool unheard_of_ = false;
  std::int64_t fences_ = 0;
};

}  // namespace gmlake
