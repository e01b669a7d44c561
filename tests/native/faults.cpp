// For every kind of driver call and every position in a program of a thousand steps: that call fails, once or three
// times in a row. Whatever the allocator then does, its books balance, no two blocks overlap, the client sees success
// or OutOfMemory and nothing else, and in the end everything goes back to the driver. The same for the end of an
// allocator whose blocks are still out. Usage: faults [STRIDE], to try every so many positions, or faults CAMPAIGN CALL
// POSITION, as a failure was reported.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"
#include "baselines/catalogue.h"
#include "script.h"
#include "witness.h"

namespace {

using namespace gmlake;
using namespace gmlake::testing;

struct Fault {
  Call call = Call::reserve;
  std::uint64_t position = 0;
  std::uint64_t times = 1;
  Status status = Status::unknown;
};

void expect(bool holds, const char* what) {
  if (!holds) throw Failure(what);
}

// Memory is short because the device is small, or because the user says so: on a large device chunks are larger.
struct Shortage {
  Bytes device;
  Bytes limit;
};
constexpr Shortage small_device{script_capacity, script_capacity};
constexpr Shortage low_limit{64 * GiB, script_capacity};
constexpr Shortage large_chunks{64 * GiB, cutting_capacity};

// One allocator on one device, for one fault.
class Run {
 public:
  explicit Run(const Shortage& shortage, const std::optional<Fault>& fault = {})
      : limit_(shortage.limit), driver_(SimulatedOptions{.capacity = shortage.device}) {
    if (fault) strike(*fault);
    try {
      allocator_ = make_allocator("gmlake", driver_);
      if (limit_ < shortage.device) allocator_->set_limit(limit_);
    } catch (const DriverError&) {
      expect(driver_.failures() > 0, "no allocator although nothing failed");
      expect(driver_.ranges() == 0, "an allocator that could not be made left addresses behind");
    }
  }

  void follow(std::span<const Step> steps) {
    if (allocator_ == nullptr) return;
    for (step_ = 0; step_ < steps.size(); ++step_) {
      const std::uint64_t failures = driver_.failures();
      follow(steps[step_]);
      if (driver_.failures() != failures || step_ % 100 == 0) look();
    }
    look();
  }

  void strike(const Fault& fault) { driver_.fail(fault.call, fault.position, fault.status, fault.times); }

  // Everything comes back, the whole device can be used again, and nothing is left.
  void finish() {
    if (allocator_ == nullptr) return;
    driver_.clear_faults();
    for (const auto& [number, address] : blocks_) {
      witness_.returning(address);
      allocator_->release(address);
    }
    allocator_->trim();
    allocator_->check();
    expect(driver_.physical_bytes() == 0 && driver_.handles() == 0, "trim did not give all memory back");
    expect(driver_.mappings() == 0, "trim left mappings behind");
    allocator_->release(allocator_->allocate(limit_, 0));
    abandon();
  }

  void abandon() {
    allocator_.reset();
    expect(driver_.physical_bytes() == 0 && driver_.handles() == 0, "memory outlived the allocator");
    expect(driver_.mappings() == 0, "mappings outlived the allocator");
    expect(driver_.ranges() == 0, "addresses outlived the allocator");
    expect(driver_.events() == 0, "events outlived the allocator");
  }

  bool struck() const { return driver_.failures() > 0; }
  std::size_t step() const { return step_; }
  std::uint64_t refusals() const { return refusals_; }
  Statistics statistics() const { return allocator_->statistics(); }

 private:
  void follow(const Step& step) {
    const auto block = blocks_.find(step.block);
    switch (step.action) {
      case Step::Action::allocate:
        or_out_of_memory([&] {
          const Address address = allocator_->allocate(step.size, step.stream);
          blocks_.emplace(step.block, address);
          witness_.received(address, step.size);
        });
        break;
      case Step::Action::release:
        if (block == blocks_.end()) break;
        witness_.returning(block->second);
        allocator_->release(block->second);
        blocks_.erase(block);
        break;
      case Step::Action::record_stream:
        if (block != blocks_.end()) allocator_->record_stream(block->second, step.stream);
        break;
      case Step::Action::hold:
        driver_.hold(step.stream);
        break;
      case Step::Action::finish:
        driver_.finish(step.stream);
        break;
      case Step::Action::begin_pool:
        or_out_of_memory([&] {
          allocator_->begin_pool(script_pool, [served = step.stream](Stream stream) { return stream == served; });
          pooled_ = true;
        });
        break;
      case Step::Action::end_pool:
        if (pooled_) allocator_->end_pool(script_pool);
        break;
      case Step::Action::release_pool:
        if (pooled_) allocator_->release_pool(script_pool);
        pooled_ = false;
        break;
      case Step::Action::trim:
        allocator_->trim();
        break;
    }
  }

  template <typename Act>
  void or_out_of_memory(Act act) {
    try {
      act();
    } catch (const OutOfMemory&) {
      ++refusals_;
    }
  }

  void look() const {
    allocator_->check();
    witness_.verify();
  }

  const Bytes limit_;
  SimulatedDriver driver_;
  std::unique_ptr<Allocator> allocator_;
  Witness witness_{driver_};
  std::map<std::size_t, Address> blocks_;
  bool pooled_ = false;
  std::size_t step_ = 0;
  std::uint64_t refusals_ = 0;
};

class Campaign {
 public:
  // Without a fault, the program must reach what the faults are meant to hit.
  using Reaches = void (*)(const Statistics&);

  Campaign(std::string name, std::vector<Step> steps, const Shortage& shortage, std::uint64_t times, Status status,
           Reaches reaches)
      : name_(std::move(name)),
        steps_(std::move(steps)),
        shortage_(shortage),
        times_(times),
        status_(status),
        reaches_(reaches) {}

  const std::string& name() const { return name_; }

  void rehearse() {
    Run run(shortage_);
    run.follow(steps_);
    reaches_(run.statistics());
    refusals_ = run.refusals();
    run.finish();
  }

  static void everything(const Statistics& s) {
    expect(s.stitches > 0 && s.rehomed_bytes > 0, "the program does not stitch");
    expect(s.sblocks.allocated > 0 && s.sblock_hits > 0, "the program does not use sBlocks again");
    expect(s.mends > 0, "the program does not mend sBlocks");
    expect(s.fences > 0 && s.num_sync_all_streams > 0, "the program does not share memory between streams");
    expect(s.num_ooms > 0 && s.num_ooms < 20, "the program does not run out of memory now and then");
  }
  static void cutting(const Statistics& s) { expect(s.cuts > 0, "the program does not cut chunks"); }

  // The call fails on the way. False: there is no such call.
  bool on_the_way(Call call, std::uint64_t position) {
    Run run(shortage_, Fault{call, position, times_, status_});
    return judge("", call, position, run, [&] {
      run.follow(steps_);
      run.finish();
    });
  }

  // The call fails while the allocator ends, with blocks out.
  bool at_the_end(Call call, std::uint64_t position) {
    Run run(shortage_);
    return judge(" at the end", call, position, run, [&] {
      run.follow(std::span(steps_).first(steps_.size() * 2 / 3));
      run.strike({call, position, 1, status_});
      run.abandon();
    });
  }

  std::uint64_t faults() const { return faults_; }
  std::uint64_t unnoticed() const { return unnoticed_; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  template <typename Act>
  bool judge(const char* when, Call call, std::uint64_t position, const Run& run, Act act) {
    try {
      act();
    } catch (const std::exception& error) {
      ++wrong_;
      std::printf("faults: %s %s %llu%s, step %zu: %s\n", name_.c_str(), std::string(to_string(call)).c_str(),
                  static_cast<unsigned long long>(position), when, run.step(), error.what());
    }
    if (!run.struck()) return false;
    ++faults_;
    unnoticed_ += run.refusals() <= refusals_;
    return wrong_ < 20;
  }

  const std::string name_;
  const std::vector<Step> steps_;
  const Shortage shortage_;
  const std::uint64_t times_;
  const Status status_;
  const Reaches reaches_;
  std::uint64_t refusals_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t unnoticed_ = 0;  // no request was refused that is not refused anyway
  std::uint64_t wrong_ = 0;
};

void try_all(Campaign& campaign, std::uint64_t stride) {
  campaign.rehearse();
  for (std::size_t kind = 0; kind < call_kinds; ++kind) {
    const auto call = static_cast<Call>(kind);
    const bool ours = call != Call::allocate && call != Call::free;  // the driver's own allocations are the rivals'
    const std::uint64_t before = campaign.faults();
    for (std::uint64_t at = 1; campaign.on_the_way(call, at); at += stride) {
    }
    for (std::uint64_t at = 1; campaign.at_the_end(call, at); at += stride) {
    }
    expect((campaign.faults() > before) == ours, "the program does not make every kind of call");
  }
}

void try_one(Campaign& campaign, const std::string& name, std::uint64_t position) {
  for (std::size_t kind = 0; kind < call_kinds; ++kind)
    if (const auto call = static_cast<Call>(kind); to_string(call) == name) campaign.on_the_way(call, position);
}

}  // namespace

int main(int count, char** words) try {
  const auto start = std::chrono::steady_clock::now();
  std::array<Campaign, 3> campaigns{{
      {"device", script(), small_device, 1, Status::out_of_memory, Campaign::everything},
      {"limit", script(), low_limit, 3, Status::unknown, Campaign::everything},
      {"cutting", cutting_script(), large_chunks, 1, Status::unknown, Campaign::cutting},
  }};
  std::uint64_t faults = 0;
  std::uint64_t unnoticed = 0;
  std::uint64_t wrong = 0;
  for (Campaign& campaign : campaigns) {
    if (count < 4)
      try_all(campaign, count == 2 ? std::stoull(words[1]) : 1);
    else if (campaign.name() == words[1])
      try_one(campaign, words[2], std::stoull(words[3]));
    faults += campaign.faults();
    unnoticed += campaign.unnoticed();
    wrong += campaign.wrong();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("faults: %llu faults, %llu of them unnoticed by the client, %llu wrong, %.1f s\n",
              static_cast<unsigned long long>(faults), static_cast<unsigned long long>(unnoticed),
              static_cast<unsigned long long>(wrong), seconds.count());
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::printf("faults: %s\n", error.what());
  return EXIT_FAILURE;
}
