// See physical.h. Offsets of the file are never used twice: a freed block is a hole in it, and what comes next reads as
// zero, as nothing of an earlier owner may shine through.
#include "device/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device/capacity.h"
#include "device/configuration.h"
#include "device/contents.h"
#include "device/diagnostics.h"
#include "device/hazards.h"

namespace gmlake::device {
namespace {

constexpr off_t file_size = off_t{1} << 50;
constexpr int foreign = -1;  // in place of handle types: another process made it
std::size_t blocks = 0;
std::size_t bytes = 0;
off_t next_offset = 0;

int sparse_file(const char* name, off_t size) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, size) == 0) return file;
  say("this machine gives no file for device memory (%s)", std::strerror(errno));
  if (file >= 0) close(file);
  return -1;
}

int common_file() {
  static const int file = sparse_file("gmlake-device", file_size);
  return file;
}

// The name tells a process that imports the file which device it is on.
int own_file(std::size_t size, int device) {
  return sparse_file(("gmlake-device-" + std::to_string(device)).c_str(), static_cast<off_t>(size));
}

}  // namespace

Block* make_block(std::size_t size, int device, int handle_types) {
  const bool shared = handle_types != 0;
  if (!shared && next_offset + static_cast<off_t>(size) > file_size) return nullptr;
  if (!capacity::take(device, size)) return nullptr;
  const int file = shared ? own_file(size, device) : common_file();
  if (file < 0) {
    capacity::give(device, size);
    return nullptr;
  }
  const off_t offset = shared ? 0 : next_offset;
  if (!shared) next_offset += static_cast<off_t>(size);
  ++blocks;
  bytes += size;
  return new Block{file, offset, size, device, handle_types, 0, 0, shared};
}

Block* adopt_block(int file, off_t offset, std::size_t size, int device) {
  ++blocks;
  return new Block{file, offset, size, device, foreign, 0, 0, true};
}

void settle(Block* block) {
  if (block->handles > 0 || block->mappings > 0) return;
  contents::forget(*block);
  hazards::forget(*block);
  const bool ours = block->handle_types != foreign;
  if (ours) {
    capacity::give(block->device, block->size);
    bytes -= block->size;
  }
  if (block->shared)
    close(block->file);
  else
    fallocate(block->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block->offset, static_cast<off_t>(block->size));
  --blocks;
  delete block;
}

std::size_t live_blocks() {
  return blocks;
}
std::size_t live_bytes() {
  return bytes;
}

}  // namespace gmlake::device
