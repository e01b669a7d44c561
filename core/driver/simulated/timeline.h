// Streams and events of the simulated device. Every record and every wait takes the next position on its stream; a
// position is reached once the stream is not held and everything the stream was told to wait for has been reached.
// Barriers name a position of another stream, not an event, because an event may be recorded again or destroyed.
#pragma once

#include <deque>
#include <limits>
#include <unordered_set>
#include <vector>

#include "driver/driver.h"

namespace gmlake {

class Timeline {
 public:
  Event create();
  Status destroy(Event event);
  Status record(Event event, Stream stream);
  Status query(Event event);  // an event never recorded counts as finished, as on the real device
  Status wait(Stream stream, Event event);
  Status synchronize(Event event);
  Status synchronize_all();  // refused while a stream captures

  void hold(Stream stream);
  void finish(Stream stream);

  void set_capturing(Stream stream, bool capturing);
  void capture_at_next_call(Stream stream) { about_to_capture_.insert(stream); }
  bool capturing(Stream stream) const { return capturing_.contains(stream); }

  std::size_t events() const { return event_count_; }

 private:
  struct Point {
    Stream stream = 0;
    std::uint64_t position = 0;  // 0 is reached from the start
  };
  struct Recorded : Point {
    bool exists = true;
    bool captured = false;  // part of a graph: it cannot be asked about, and who waits for it joins the capture
  };
  struct Barrier {
    std::uint64_t position = 0;  // from here on the stream waits ...
    Point awaited;               // ... for this
  };
  struct Lane {
    Stream stream = 0;
    std::uint64_t held_after = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t issued = 0;
    std::uint64_t reached = 0;
    std::deque<Barrier> barriers;
  };

  Recorded* find(Event event);  // nullptr: there is none
  Lane& lane(Stream stream);
  bool reached(Point point);
  void force(Point point);
  void begin_late(Stream stream);

  std::deque<Lane> lanes_;        // few, and they stay where they are
  std::vector<Recorded> events_;  // by event less one, and none is ever given out again
  std::size_t event_count_ = 0;
  std::unordered_set<Stream> capturing_;
  std::unordered_set<Stream> about_to_capture_;
};

}  // namespace gmlake
