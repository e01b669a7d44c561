// See board.h.
#include "libraries/collectives/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>

#include "device/configuration.h"
#include "libraries/collectives/waiting.h"

namespace gmlake::collectives {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto longest_wait_for_arrival = 10min;  // as long as PyTorch waits at a rendezvous
constexpr std::string_view prefix = "gmlake-";

std::string place() {
  const std::string& session = device::configuration().session;
  if (!session.empty()) return session;
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

// Folders of processes that were killed. Within a session the launcher clears up.
void sweep(const std::string& where) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(where, ignored)) {
    const std::string name = entry.path().filename();
    int process = 0;
    if (name.rfind(prefix, 0) != 0 || std::sscanf(name.c_str() + prefix.size(), "%d-", &process) != 1) continue;
    if (started(process) == 0) std::filesystem::remove_all(entry.path(), ignored);
  }
}

// Boards that nobody left when the process ends; its peers shall not wait for it.
struct Open {
  std::mutex lock;
  std::set<Board*> boards;
};

Open& open_boards() {
  static Open& state = *new Open;
  return state;
}

void leave_all() {
  std::lock_guard guard(open_boards().lock);
  for (Board* board : open_boards().boards) board->leave();
}

}  // namespace

std::string new_board_name() {
  const std::string where = place();
  if (device::configuration().session.empty()) sweep(where);
  unsigned char bytes[12];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) std::memset(bytes, 0, sizeof bytes);
  std::string name = std::string(prefix) + std::to_string(getpid()) + "-";
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

std::shared_ptr<Board> Board::open(const std::string& name, int ranks, int rank, std::string& sentence) {
  std::shared_ptr<Board> board(new Board(name, ranks, rank));
  if (const char* const impossible = board->map(); impossible != nullptr) {
    sentence = "cannot " + std::string(impossible) + " " + board->folder_ + " for a communicator of " +
               std::to_string(ranks) + " processes: " + std::strerror(errno);
    return nullptr;
  }
  Member& self = board->members_[rank];
  if (self.process.load() != 0) {
    sentence = "rank " + std::to_string(rank) + " of this communicator was taken before, by process " +
               std::to_string(self.process.load()) + ": an id serves once";
    board->abandoned_ = true;
    return nullptr;
  }
  static const int registered = std::atexit(leave_all);
  static_cast<void>(registered);
  {
    std::lock_guard guard(open_boards().lock);
    open_boards().boards.insert(board.get());
  }
  self.start = started(getpid());
  self.process.store(static_cast<std::uint32_t>(getpid()), std::memory_order_release);
  wake(self.process);
  return board;
}

Board::Board(const std::string& name, int ranks, int rank)
    : name_(name),
      folder_(place() + "/" + name),
      ranks_(ranks),
      rank_(rank),
      owner_(getpid()),
      received_(static_cast<std::size_t>(ranks)) {}

const char* Board::map() {
  const auto count = static_cast<std::size_t>(ranks_);
  const std::size_t used = 64 + count * sizeof(Member) + count * count * sizeof(std::uint32_t);
  const std::size_t head = (used + 4095) / 4096 * 4096;
  const std::size_t slots = 2 * sizeof(Slot);
  mapped_ = head + count * slots;
  std::error_code ignored;
  std::filesystem::create_directory(folder_, ignored);
  const int file = ::open((folder_ + "/board").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return "open";
  bool room = ftruncate(file, static_cast<off_t>(mapped_)) == 0;
  // Room is asked for now, because without it a write to the mapping would be a bus error.
  const std::size_t own = head + static_cast<std::size_t>(rank_) * slots;
  for (const auto& [from, size] : {std::pair{std::size_t{0}, head}, std::pair{own, slots}})
    room = room && (errno = posix_fallocate(file, static_cast<off_t>(from), static_cast<off_t>(size))) == 0;
  void* const mapping = room ? mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int reason = errno;
  close(file);
  errno = reason;
  if (mapping == MAP_FAILED) return "find room in";
  mapping_ = mapping;
  auto* at = static_cast<std::byte*>(mapping_);
  leavers_ = reinterpret_cast<std::atomic<std::uint32_t>*>(at);
  members_ = reinterpret_cast<Member*>(at + 64);
  sent_ = reinterpret_cast<std::atomic<std::uint32_t>*>(at + 64 + count * sizeof(Member));
  slots_ = reinterpret_cast<Slot*>(at + head);
  return nullptr;
}

Board::~Board() {
  {
    std::lock_guard guard(open_boards().lock);
    open_boards().boards.erase(this);
  }
  if (mapping_ == nullptr) return;
  leave();
  munmap(mapping_, mapped_);
}

pid_t Board::process(int rank) const {
  return static_cast<pid_t>(members_[rank].process.load());
}

bool Board::gone(const Member& member) const {
  return member.left.load() != 0 || started(static_cast<pid_t>(member.process.load())) != member.start;
}

// Looks up from time to time whether waiting still makes sense.
Wait Board::wait(const std::atomic<std::uint32_t>& word, const std::function<bool()>& reached,
                 const std::function<Wait()>& hopeless) {
  for (int spins = 0; spins < 200; ++spins)
    if (reached()) return Wait::done;
  const Interruptible signals;
  while (true) {
    const std::uint32_t seen = word.load();
    if (reached()) return Wait::done;
    if (abandoned_.load()) return Wait::abandoned;
    if (signals.interrupted()) return Wait::interrupted;
    sleep_while(word, seen);
    if (reached()) return Wait::done;
    if (const Wait reason = hopeless(); reason != Wait::done)
      return reached() ? Wait::done : reason;  // it may have come just before it went
  }
}

Wait Board::everybody_is_here() {
  const auto deadline = Clock::now() + longest_wait_for_arrival;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::atomic<std::uint32_t>& process = members_[rank].process;
    const Wait result = wait(
        process, [&] { return process.load() != 0; },
        [&] { return Clock::now() > deadline ? Wait::too_long : Wait::done; });
    if (result != Wait::done) return result;
  }
  return Wait::done;
}

void Board::publish(std::uint32_t round) {
  members_[rank_].published.store(round, std::memory_order_release);
  wake(members_[rank_].published);
}

Wait Board::everybody_published(std::uint32_t round, int& missing) {
  const auto has = [&](int rank) {  // rounds wrap around
    return static_cast<std::int32_t>(members_[rank].published.load(std::memory_order_acquire) - round) >= 0;
  };
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_ && process(rank) == owner_) {
      missing = rank;
      return Wait::same_process;
    }
    const auto hopeless = [&] {
      for (int other = 0; other < ranks_; ++other) {
        if (has(other) || !gone(members_[other])) continue;
        missing = other;
        return has(other) ? Wait::done : Wait::gone;  // it may have published just before it went
      }
      return Wait::done;
    };
    const Wait result = wait(members_[rank].published, [&] { return has(rank); }, hopeless);
    if (result != Wait::done) return result;
  }
  return Wait::done;
}

void Board::leave() {
  if (abandoned_.exchange(true) || getpid() != owner_) return;  // a forked child is not the rank
  Member& self = members_[rank_];
  self.left.store(1);
  wake(self.published);
  for (int to = 0; to < ranks_; ++to) wake(sent_[rank_ * ranks_ + to]);
  if (leavers_->fetch_add(1) + 1 < static_cast<std::uint32_t>(ranks_)) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace gmlake::collectives
