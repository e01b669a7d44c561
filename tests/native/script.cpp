#include "script.h"

#include <algorithm>
#include <random>
#include <span>

#include "base/units.h"

namespace gmlake::testing {
namespace {

using Action = Step::Action;

class Author {
 public:
  explicit Author(Bytes unit = 1 * MiB) : unit_(unit) {}

  // One step of a training loop: layers that leave long-lived blocks between short-lived ones, then a block that only
  // fits if the holes are joined. The same seed gives the same requests; with `late`, one of the holes is not there
  // yet.
  void iteration(unsigned seed, Stream main, Stream side, bool late = false) {
    std::mt19937 random(seed);
    std::vector<std::size_t> kept;
    std::vector<std::size_t> passing;
    for (int layer = 0; layer < 12; ++layer) {
      kept.push_back(allocate((4 + random() % 9) * unit_ + random() % 3 * 512, main));
      passing.push_back(allocate((5 + random() % 13) * unit_, layer % 3 == 2 ? side : main));
      allocate_small(random, main);
    }
    for (std::size_t block : std::span(passing).subspan(late ? 1 : 0)) release(block);
    const std::size_t large = allocate(90 * unit_, main);
    if (late) release(passing.front());
    use_on(large, side);
    release(large);
    once(70 * unit_, side);
    std::ranges::shuffle(kept, random);
    for (std::size_t block : kept) release(block);
    for (std::size_t block : small_) release(block);
    small_.clear();
  }

  void capture(Stream stream) {
    steps_.push_back({.action = Action::begin_pool, .stream = stream});
    const std::size_t first = allocate(24 * MiB, stream);
    const std::size_t small = allocate(40 * KiB, stream);
    const std::size_t second = allocate(6 * MiB, stream);
    release(first);
    const std::size_t third = allocate(20 * MiB, stream);
    steps_.push_back({.action = Action::end_pool});
    release(second);
    release(small);
    steps_.push_back({.action = Action::release_pool});
    release(third);
  }

  void once(Bytes size, Stream stream) { release(allocate(size, stream)); }
  void hold(Stream stream) { steps_.push_back({.action = Action::hold, .stream = stream}); }
  void finish(Stream stream) { steps_.push_back({.action = Action::finish, .stream = stream}); }
  void trim() { steps_.push_back({.action = Action::trim}); }

  // Whatever comes, on many streams, with more wanted than there is.
  void disorder(std::size_t until) {
    std::mt19937 random(7);
    std::vector<std::size_t> out;
    while (steps_.size() + out.size() < until) {
      const Stream stream = random() % 10;
      const unsigned dice = random() % 100;
      if (dice < 45) {
        const Bytes size = dice < 15 ? 512 * (1 + random() % 2000) : (1 + random() % 40) * MiB - random() % 700;
        out.push_back(allocate(size, stream));
      } else if (dice < 85 && !out.empty()) {
        const std::size_t pick = random() % out.size();
        if (dice < 52) use_on(out[pick], random() % 10);
        release(out[pick]);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(pick));
      } else if (dice < 92) {
        hold(stream);
      } else if (dice < 99) {
        finish(stream);
      } else {
        trim();
      }
    }
    for (std::size_t block : out) release(block);
  }

  std::vector<Step> steps() && { return std::move(steps_); }

 private:
  std::size_t allocate(Bytes size, Stream stream) {
    steps_.push_back({.action = Action::allocate, .block = blocks_, .size = size, .stream = stream});
    return blocks_++;
  }
  void allocate_small(std::mt19937& random, Stream stream) {
    small_.push_back(allocate(512 + random() % (900 * KiB), stream));
  }
  void use_on(std::size_t block, Stream stream) {
    steps_.push_back({.action = Action::record_stream, .block = block, .stream = stream});
  }
  void release(std::size_t block) { steps_.push_back({.action = Action::release, .block = block}); }

  const Bytes unit_;  // of the blocks of an iteration
  std::vector<Step> steps_;
  std::vector<std::size_t> small_;
  std::size_t blocks_ = 0;
};

}  // namespace

std::vector<Step> script() {
  Author author;
  for (unsigned step = 0; step < 6; ++step) author.iteration(1 + step % 2, 0, 1);
  for (unsigned step = 0; step < 2; ++step) author.iteration(1 + step % 2, 0, 1, true);
  author.capture(2);
  author.hold(1);
  author.iteration(2, 0, 1);
  author.finish(1);
  author.trim();
  author.hold(0);
  author.iteration(3, 3, 0);
  author.finish(0);
  author.capture(2);
  author.disorder(1150);
  return std::move(author).steps();
}

std::vector<Step> cutting_script() {
  Author author(8 * MiB);
  author.once(cutting_capacity * 9 / 10, 0);
  for (unsigned step = 0; step < 2; ++step) author.iteration(1 + step, 0, 1);
  return std::move(author).steps();
}

}  // namespace gmlake::testing
