// Waiting for another process: on a word in shared memory, with a look at whether the other one still lives.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace gmlake::collectives {

// When the process began, in ticks since boot: tells it from a later one with the same number. 0 if it is gone.
std::uint64_t started(pid_t process);

// While one of these lives, SIGINT and SIGTERM are noticed besides being handled as before. A program's own handler,
// such as Python's, only makes a note and acts when we return: without this a wait for a lost peer could not be ended.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  bool interrupted() const;

 private:
  unsigned before_;
};

// Until somebody wakes it or a moment has passed; at once if the word is not `seen` any more.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen);
void wake(std::atomic<std::uint32_t>& word);

}  // namespace gmlake::collectives
