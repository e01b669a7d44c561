// See waiting.h.
#include "libraries/collectives/waiting.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace gmlake::collectives {

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
