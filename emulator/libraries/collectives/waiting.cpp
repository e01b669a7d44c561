// See waiting.h.
#include "libraries/collectives/waiting.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>

namespace gmlake::collectives {
namespace {

constexpr int watched[] = {SIGINT, SIGTERM};
struct sigaction previous[2];
std::atomic<unsigned> noticed{0};
std::mutex installing;
int installed = 0;

void notice(int number, siginfo_t* information, void* context) {
  noticed.fetch_add(1);
  for (int i = 0; i < 2; ++i) {
    if (watched[i] != number) continue;
    if ((previous[i].sa_flags & SA_SIGINFO) != 0)
      previous[i].sa_sigaction(number, information, context);
    else
      previous[i].sa_handler(number);
  }
}

bool has_own_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

}  // namespace

// A signal without a handler of the program's needs no help: it ends the process or does nothing.
Interruptible::Interruptible() : before_(noticed.load()) {
  std::lock_guard guard(installing);
  if (installed++ > 0) return;
  for (int i = 0; i < 2; ++i) {
    sigaction(watched[i], nullptr, &previous[i]);
    if (!has_own_handler(previous[i])) continue;
    struct sigaction ours = previous[i];
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = notice;
    sigaction(watched[i], &ours, nullptr);
  }
}

Interruptible::~Interruptible() {
  std::lock_guard guard(installing);
  if (--installed > 0) return;
  for (int i = 0; i < 2; ++i)
    if (has_own_handler(previous[i])) sigaction(watched[i], &previous[i], nullptr);
}

bool Interruptible::interrupted() const {
  return noticed.load() != before_;
}

std::uint64_t started(pid_t process) {
  char path[64], line[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, line, sizeof line - 1);
  close(file);
  if (length <= 0) return 0;
  line[length] = 0;
  const char* rest = std::strrchr(line, ')');  // the name before it may contain anything
  char state = 'X';
  unsigned long long ticks = 0;
  if (rest == nullptr ||
      std::sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
                  &ticks) != 2)
    return 0;
  return state == 'Z' || state == 'X' ? 0 : ticks;
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec moment{0, 50'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &moment, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gmlake::collectives
