// Physical memory: blocks of one sparse file that never takes more of the host than what is written to it. A block is
// what cuMemCreate makes and what stands behind an allocation. It lives until its last handle and its last mapping are
// gone. The caller holds the lock of memory.h.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace gmlake::device {

struct Block {
  int file;
  off_t offset;
  std::size_t size;
  int device;
  int handle_types;  // what it may be exported as; 0: nothing
  int handles;
  int mappings;
};

// Null when the device is full (or, with a sentence on stderr, the host).
Block* make_block(std::size_t size, int device, int handle_types);
// A block that another process made; the file is ours to close. Takes nothing of the device: its maker has.
Block* adopt_block(int file, off_t offset, std::size_t size, int device);
// A descriptor that stands for the block in any process, and the block that such a descriptor stands for. -1 or null:
// the host gives none, or it is no such descriptor. What lies on a device that this process does not see counts as
// being on `unseen`: CUDA lets processes share memory whatever each of them sees.
int export_block(const Block& block);
Block* import_block(int file, int unseen);
// Ends the block when neither handle nor mapping is left.
void settle(Block* block);
// Of the blocks that this process made and has not ended.
std::size_t live_bytes();

}  // namespace gmlake::device
