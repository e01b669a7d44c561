// Where the processes of one communicator meet: a folder with a file that all of them map, and one more file per
// message under way. A file of zeros is a valid empty board, so that nobody has to come first. The folder lies in the
// run's session, else in /dev/shm, and goes when the last rank leaves; what a killed run left behind goes with the next
// one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libraries/collectives/pieces.h"

namespace gmlake::collectives {

// What a rank says about the operation that it takes part in.
struct Description {
  std::int32_t kind, type, combine, scaled, peer;
  std::uint64_t count;
  double factor;  // the only field in which ranks may differ
};

// Two per rank: while the others still read one, the next is filled.
struct Slot {
  Description description;
  alignas(64) std::byte data[piece_size];
};

enum class Wait { done, gone, same_process, abandoned, interrupted, too_long };

class Board {
 public:
  // Null, with a sentence, if there is no room or no access.
  static std::shared_ptr<Board> open(const std::string& name, int ranks, int rank, std::string& sentence);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  const std::string& name() const { return name_; }
  pid_t process(int rank) const;

  Wait everybody_is_here();
  Slot& slot(int rank, std::uint32_t round) { return slots_[2 * static_cast<std::size_t>(rank) + round % 2]; }
  void publish(std::uint32_t round);
  // Waits until every rank has published the round; `missing` is the one that never will.
  Wait everybody_published(std::uint32_t round, int& missing);

  // Messages wait in files for as long as it takes, so that a send never does.
  bool post(int to, const Description& description, const std::vector<std::byte>& data);
  Wait fetch_message(int from, Description& description, std::vector<std::byte>& data);

  // This rank takes no further part; whoever waits for it gives up, and so does whoever waits here in this process.
  void leave();

 private:
  struct alignas(64) Member {
    std::atomic<std::uint32_t> process;
    std::atomic<std::uint32_t> published;
    std::atomic<std::uint32_t> left;
    std::uint64_t start;
  };

  Board(const std::string& name, int ranks, int rank);
  const char* map();  // null, or what cannot be done to the folder: errno says why
  bool gone(const Member& member) const;
  Wait wait(const std::atomic<std::uint32_t>& word, const std::function<bool()>& reached,
            const std::function<Wait()>& hopeless);
  std::string message_path(int from, int to, std::uint32_t number) const;

  const std::string name_, folder_;
  const int ranks_, rank_;
  const pid_t owner_;
  std::atomic<bool> abandoned_{false};
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  Member* members_ = nullptr;
  std::atomic<std::uint32_t>* leavers_ = nullptr;
  std::atomic<std::uint32_t>* sent_ = nullptr;  // by sender and receiver
  std::vector<std::uint32_t> received_;         // by sender
  Slot* slots_ = nullptr;
};

// A name that no other communicator of this machine has.
std::string new_board_name();

}  // namespace gmlake::collectives
