// Threads that do what PyTorch's threads do, through the very functions that PyTorch calls, on the emulated device:
// allocate, write into the block, hand it to another thread, use it on other streams, free it anywhere, open pools, and
// now and then empty the cache, look at statistics and record history. What was written must be there until the free.
// Meant to be built with the thread sanitizer, which also sees two threads write to the same memory.
// Usage: callbacks_stress [SECONDS] [THREADS]; finds the emulated device as libcuda.so.1.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "edge/process.h"
#include "edge/torch/callbacks.h"
#include "edge/torch/history.h"

namespace {

using namespace gmlake;

constexpr std::size_t stream_count = 40;  // more than have a lane of their own

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "callbacks_stress: %s\n", what);
  std::exit(1);
}

std::vector<void*> make_streams() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail(dlerror());
  const auto create = reinterpret_cast<int (*)(void**, unsigned)>(dlsym(library, "cuStreamCreate"));
  std::vector<void*> streams(stream_count);
  for (std::size_t i = 1; i < stream_count; ++i)  // the first is the default stream
    if (create == nullptr || create(&streams[i], 1) != 0) fail("no stream could be made");
  return streams;
}

struct Block {
  std::uint64_t* at;
  std::size_t size;
  std::uint64_t mark;

  std::uint64_t& last() const { return at[size / sizeof *at - 1]; }
  void write() const { at[0] = last() = mark; }
  void check() const {
    if (at[0] != mark || last() != mark) fail("a block lost its contents to another one");
  }
};

// Blocks on their way from one thread to another.
struct Mailbox {
  std::mutex mutex;
  std::vector<Block> blocks;
};

class Worker {
 public:
  Worker(unsigned number, const std::vector<void*>& streams, Mailbox& mailbox)
      : number_(number), random_(number), streams_(streams), mailbox_(mailbox) {}

  void work(const std::atomic<bool>& stop) {
    for (; !stop; ++steps_) step();
    for (const Block& block : blocks_) free(block);
  }
  std::uint64_t steps() const { return steps_; }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  void* stream() { return streams_[below(streams_.size())]; }

  void step() {
    const std::uint64_t dice = below(10000);
    if (dice < 4500)
      allocate();
    else if (dice < 8500)
      free_any();
    else if (dice < 9000)
      pass_on();
    else if (dice < 9700)
      record();
    else if (dice < 9800)
      in_a_pool();
    else if (dice < 9990)
      (void)process_device(0).allocator.totals();
    else if (dice < 9995)
      gmlake_torch_empty_cache();
    else
      history::start(below(2) != 0 ? +[] { return std::uint64_t{7}; } : nullptr, history::Level::all);
  }

  std::size_t size() {
    const std::uint64_t dice = below(100);
    const std::size_t bytes = dice < 70 ? below(64 * KiB) : dice < 95 ? below(4 * MiB) : below(64 * MiB);
    return bytes / 8 * 8 + 8;
  }

  void allocate() {
    const std::size_t bytes = size();
    try {
      auto* const at = static_cast<std::uint64_t*>(gmlake_torch_allocate(bytes, 0, stream()));
      blocks_.push_back({at, bytes, static_cast<std::uint64_t>(number_) << 48 | steps_});
      blocks_.back().write();
    } catch (const std::exception&) {
      free_all();  // out of memory, as others hold much
    }
  }

  void free(const Block& block) {
    block.check();
    below(2) != 0 ? gmlake_torch_free(block.at, block.size, 0, nullptr) : gmlake_torch_delete(block.at);
  }

  void free_all() {
    for (const Block& block : blocks_) free(block);
    blocks_.clear();
  }

  void free_any() {
    if (blocks_.empty()) return;
    std::swap(blocks_[below(blocks_.size())], blocks_.back());
    free(blocks_.back());
    blocks_.pop_back();
  }

  void pass_on() {
    std::lock_guard lock(mailbox_.mutex);
    if (below(2) != 0 && !blocks_.empty()) {
      mailbox_.blocks.push_back(blocks_.back());
      blocks_.pop_back();
    } else if (!mailbox_.blocks.empty()) {
      blocks_.push_back(mailbox_.blocks.back());
      mailbox_.blocks.pop_back();
    }
  }

  void record() {
    if (!blocks_.empty()) gmlake_torch_record_stream(blocks_[below(blocks_.size())].at, stream());
  }

  // As torch.cuda.use_mem_pool does it: for this thread alone.
  void in_a_pool() {
    const TorchPool pool{0, number_ % 4 + 1};  // addresses are scarce under a sanitizer
    const auto here = std::this_thread::get_id();
    try {
      torch_begin_pool(0, pool, [here](void*) { return std::this_thread::get_id() == here; });
    } catch (const InvalidArgument&) {
      return;  // another thread is in it
    }
    for (std::uint64_t i = below(4); i > 0; --i) allocate();
    torch_end_pool(0, pool);
    torch_release_pool(0, pool);
  }

  unsigned number_;
  std::mt19937_64 random_;
  const std::vector<void*>& streams_;
  Mailbox& mailbox_;
  std::vector<Block> blocks_;
  std::uint64_t steps_ = 0;
};

}  // namespace

int main(int count, char** words) {
  const std::chrono::duration<double> time(count > 1 ? std::atof(words[1]) : 1.0);
  const auto threads = static_cast<unsigned>(count > 2 ? std::atoi(words[2]) : 24);
  const std::vector<void*> streams = make_streams();
  gmlake_torch_init(1);
  Mailbox mailbox;
  std::vector<Worker> workers;
  for (unsigned number = 0; number < threads; ++number) workers.emplace_back(number, streams, mailbox);
  std::atomic<bool> stop = false;
  {
    std::vector<std::jthread> running;
    for (Worker& worker : workers) running.emplace_back([&] { worker.work(stop); });
    std::this_thread::sleep_for(time);
    stop = true;
  }
  for (const Block& block : mailbox.blocks) gmlake_torch_delete(block.at);
  std::uint64_t steps = 0;
  for (const Worker& worker : workers) steps += worker.steps();
  Allocator& allocator = process_device(0).allocator;
  gmlake_torch_empty_cache();
  allocator.check();
  if (allocator.totals().allocated != 0 || allocator.totals().reserved != 0) fail("something was left");
  std::printf("callbacks_stress: %u threads, %llu steps: ok\n", threads, static_cast<unsigned long long>(steps));
  return EXIT_SUCCESS;
}
