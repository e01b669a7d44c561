// One row of counters per process, in a file of the session's folder that all of them map; without a session the table
// is private. Nobody writes another's row, except to clear that of a process that is gone, so no lock can be left
// behind.
#include "device/capacity.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "device/configuration.h"
#include "device/diagnostics.h"

namespace gmlake::device::capacity {
namespace {

constexpr int most_processes = 256;

struct Row {
  std::atomic<int> process;
  std::atomic<std::size_t> used[most_devices];
};

struct Table {
  Row rows[most_processes];
};

std::atomic<std::size_t> peaks[most_devices];
std::atomic<Row*> own_row{nullptr};
std::atomic<int> owner{0};

Table* map_table() {
  int file = -1;
  int kind = MAP_PRIVATE | MAP_ANONYMOUS;
  if (!configuration().session.empty()) {
    file = open((configuration().session + "/usage").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && ftruncate(file, sizeof(Table)) == 0) kind = MAP_SHARED;
  }
  void* at = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, kind, kind == MAP_SHARED ? file : -1, 0);
  if (file >= 0) close(file);
  if (at == MAP_FAILED) {
    say("this machine has not even %zu KiB of memory left for a table", sizeof(Table) >> 10);
    std::abort();
  }
  return static_cast<Table*>(at);
}

Table& table() {
  static Table& mapped = *map_table();
  return mapped;
}

bool gone(int process) {
  return kill(process, 0) != 0 && errno == ESRCH;
}

void clear(Row& row) {
  for (auto& used : row.used) used.store(0);
  row.process.store(0);
}

// A forked child that goes on to use the device gets a row of its own.
Row& row() {
  const int self = getpid();
  if (owner.load() == self) return *own_row.load();
  for (int round = 0; round < 2; ++round) {
    for (Row& candidate : table().rows) {
      int nobody = 0;
      if (!candidate.process.compare_exchange_strong(nobody, self)) continue;
      own_row.store(&candidate);
      owner.store(self);
      return candidate;
    }
    for (Row& candidate : table().rows)
      if (gone(candidate.process.load())) clear(candidate);
  }
  say("more than %d processes share the emulated device", most_processes);
  std::abort();
}

std::size_t total(int device) {
  std::size_t sum = 0;
  for (Row& candidate : table().rows)
    if (candidate.process.load() != 0) sum += candidate.used[device].load();
  return sum;
}

}  // namespace

bool take(int device, std::size_t size) {
  const std::size_t memory = configuration().memory;
  if (size > memory) return false;
  Row& own = row();
  const std::size_t now = own.used[device].fetch_add(size) + size;
  if (total(device) > memory) {
    for (Row& candidate : table().rows) {
      const int process = candidate.process.load();
      if (process != 0 && gone(process)) clear(candidate);
    }
    if (total(device) > memory) {
      own.used[device].fetch_sub(size);
      return false;
    }
  }
  std::size_t before = peaks[device].load();
  while (before < now && !peaks[device].compare_exchange_weak(before, now)) {
  }
  return true;
}

void give(int device, std::size_t size) {
  row().used[device].fetch_sub(size);
}

std::size_t used(int device) {
  return row().used[device].load();
}

std::size_t peak(int device) {
  return peaks[device].load();
}

std::size_t free(int device) {
  const std::size_t taken = total(device);
  return taken < configuration().memory ? configuration().memory - taken : 0;
}

}  // namespace gmlake::device::capacity
