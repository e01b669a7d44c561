// The board's messages: one file each, named after sender, receiver and number. See board.h.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libraries/collectives/board.h"
#include "libraries/collectives/waiting.h"

namespace gmlake::collectives {
namespace {

bool write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool read_all(int file, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = read(file, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

std::string Board::message_path(int from, int to, std::uint32_t number) const {
  return folder_ + "/" + std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number);
}

bool Board::post(int to, const Description& description, const std::vector<std::byte>& data) {
  std::atomic<std::uint32_t>& sent = sent_[rank_ * ranks_ + to];
  const std::string path = message_path(rank_, to, sent.load());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool written = write_all(file, &description, sizeof description) && write_all(file, data.data(), data.size());
  close(file);
  if (!written) {
    unlink(path.c_str());
    return false;
  }
  sent.fetch_add(1, std::memory_order_release);
  wake(sent);
  return true;
}

Wait Board::fetch_message(int from, Description& description, std::vector<std::byte>& data) {
  const std::atomic<std::uint32_t>& sent = sent_[from * ranks_ + rank_];
  const std::uint32_t number = received_[static_cast<std::size_t>(from)];
  const Wait result = wait(
      sent, [&] { return sent.load(std::memory_order_acquire) != number; },
      [&] { return gone(members_[from]) ? Wait::gone : Wait::done; });
  if (result != Wait::done) return result;
  const std::string path = message_path(from, rank_, number);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Wait::gone;
  const off_t size = lseek(file, 0, SEEK_END);
  lseek(file, 0, SEEK_SET);
  data.resize(size > static_cast<off_t>(sizeof description) ? static_cast<std::size_t>(size) - sizeof description : 0);
  const bool complete = read_all(file, &description, sizeof description) && read_all(file, data.data(), data.size());
  close(file);
  unlink(path.c_str());
  ++received_[static_cast<std::size_t>(from)];
  return complete ? Wait::done : Wait::gone;
}

}  // namespace gmlake::collectives
