#include "watch/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/units.h"
#include "watch/now.h"

namespace gmlake {
namespace {

constexpr char magic[8] = {'g', 'm', 'l', 'a', 'k', 'e', '\0', '\1'};
constexpr std::size_t first_object = 1024;  // what lies before it is the header
constexpr std::size_t largest = 32 * 1024;
constexpr std::size_t page = 4096;
constexpr unsigned never_executable = 8;  // MFD_NOEXEC_SEAL, which some systems insist on and older ones do not know

struct Header {
  char magic[8];
  std::uint32_t size;
  std::uint32_t gauges;
  std::int64_t process;
  std::uint32_t device;
  std::uint32_t unused;
  std::uint64_t capacity;
  std::int64_t shown_us;
};
static_assert(sizeof(Header) == 48);

struct Row {
  char name[16];
  std::uint32_t offsets[4];
};
constexpr std::size_t most_gauges = (first_object - sizeof(Header)) / sizeof(Row);

}  // namespace

thread_local Board* Board::current_ = nullptr;

Board::Scope::Scope(Board& board) {
  current_ = &board;
}
Board::Scope::~Scope() {
  current_ = nullptr;
}

void* Board::place(std::size_t size) {
  void* const at = current_ == nullptr ? nullptr : current_->take(size);
  return at == nullptr ? ::operator new(size) : at;
}

// An object on a board is destroyed only when its constructor failed: its place stays unused.
void Board::give_back(void* at, std::size_t size) noexcept {
  if (current_ == nullptr || !current_->holds(at)) ::operator delete(at, size);
}

void* Board::take(std::size_t size) {
  if (base_ != nullptr || size > largest - first_object) return nullptr;
  const std::size_t wanted = round_up(first_object + size, page);
  int file = memfd_create("gmlake-board", MFD_CLOEXEC | MFD_ALLOW_SEALING | never_executable);
  if (file < 0 && errno == EINVAL) file = memfd_create("gmlake-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return nullptr;
  void* at = MAP_FAILED;
  // Without the memory behind it a later store could end the process, and so could somebody who makes it shorter.
  if (posix_fallocate(file, 0, static_cast<off_t>(wanted)) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  base_ = static_cast<std::byte*>(at);
  size_ = wanted;
  file_ = file;
  return base_ + first_object;
}

bool Board::holds(const void* at) const {
  const auto* const byte = static_cast<const std::byte*>(at);
  return base_ != nullptr && byte >= base_ && byte < base_ + size_;
}

void Board::show(int device, Bytes capacity, std::span<const Gauge> gauges) {
  if (base_ == nullptr) return;
  Header header{};
  header.size = static_cast<std::uint32_t>(size_);
  header.process = getpid();
  header.device = static_cast<std::uint32_t>(device);
  header.capacity = capacity;
  header.shown_us = now_us();
  auto* const rows = reinterpret_cast<Row*>(base_ + sizeof(Header));
  for (const Gauge& gauge : gauges) {
    Row row{};
    std::memcpy(row.name, gauge.name.data(), std::min(gauge.name.size(), sizeof(row.name) - 1));
    const std::array<const std::int64_t*, 4> counters{gauge.plus[0], gauge.plus[1], gauge.minus[0], gauge.minus[1]};
    const bool whole = std::ranges::all_of(counters, [&](const auto* c) { return c == nullptr || holds(c); });
    if (!whole || header.gauges == most_gauges) continue;
    for (std::size_t i = 0; i < counters.size(); ++i)
      if (counters[i] != nullptr)
        row.offsets[i] = static_cast<std::uint32_t>(reinterpret_cast<const std::byte*>(counters[i]) - base_);
    rows[header.gauges++] = row;
  }
  std::memcpy(base_ + sizeof magic, reinterpret_cast<const char*>(&header) + sizeof magic,
              sizeof header - sizeof magic);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(base_, magic, sizeof magic);  // last: who sees it sees the rest
}

void Board::detach() noexcept {
  if (base_ == nullptr) return;
  std::byte copy[largest];
  std::memcpy(copy, base_, size_);
  if (mmap(base_, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
    std::memcpy(base_, copy, size_);
  close(file_);
  file_ = -1;
}

}  // namespace gmlake
