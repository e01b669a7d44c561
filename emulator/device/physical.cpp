// See physical.h. Offsets of the file are never used twice: a freed block is a hole in it, and what comes next reads as
// zero, as nothing of an earlier owner may shine through.
#include "device/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
#include "device/visible.h"

namespace gmlake::device {
namespace {

// Blocks lie in the first half of the file. The second says of blocks that were exported what they are, so that a
// descriptor that is positioned at a block tells all of it.
constexpr off_t file_size = off_t{1} << 50;
constexpr off_t labels = file_size / 2;
struct Label {
  std::uint64_t size;
  std::int64_t device;  // of the machine
};
constexpr int foreign = -1;  // in place of handle types: another process made it
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

off_t label_of(off_t block) {
  return labels + block / static_cast<off_t>(granularity) * static_cast<off_t>(sizeof(Label));
}

}  // namespace

Block* make_block(std::size_t size, int device, int handle_types) {
  if (next_offset + static_cast<off_t>(size) > labels) return nullptr;
  if (!capacity::take(visible::physical(device), size)) return nullptr;
  const int file = common_file();
  if (file < 0) {
    capacity::give(visible::physical(device), size);
    return nullptr;
  }
  const off_t offset = next_offset;
  next_offset += static_cast<off_t>(size);
  bytes += size;
  return new Block{file, offset, size, device, handle_types, 0, 0};
}

Block* adopt_block(int file, off_t offset, std::size_t size, int device) {
  return new Block{file, offset, size, device, foreign, 0, 0};
}

int export_block(const Block& block) {
  // Opened anew rather than duplicated: the position is then its own.
  const int file = open(("/proc/self/fd/" + std::to_string(block.file)).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  const Label label{block.size, visible::physical(block.device)};
  if (pwrite(file, &label, sizeof label, label_of(block.offset)) == sizeof label &&
      lseek(file, block.offset, SEEK_SET) == block.offset)
    return file;
  close(file);
  return -1;
}

Block* import_block(int file, int unseen) {
  struct stat about;
  if (fstat(file, &about) != 0 || about.st_size != file_size) return nullptr;
  const off_t offset = lseek(file, 0, SEEK_CUR);
  Label label{};
  if (offset < 0 || pread(file, &label, sizeof label, label_of(offset)) != sizeof label || label.size == 0)
    return nullptr;
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
  const int device = visible::ordinal(static_cast<int>(label.device), unseen);
  return copy < 0 ? nullptr : adopt_block(copy, offset, label.size, device);
}

void settle(Block* block) {
  if (block->handles > 0 || block->mappings > 0) return;
  contents::forget(*block);
  hazards::forget(*block);
  const bool ours = block->handle_types != foreign;
  if (ours) {
    capacity::give(visible::physical(block->device), block->size);
    bytes -= block->size;
    fallocate(block->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block->offset, static_cast<off_t>(block->size));
  } else {
    close(block->file);
  }
  delete block;
}

std::size_t live_bytes() {
  return bytes;
}

}  // namespace gmlake::device
