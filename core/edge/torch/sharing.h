// Blocks that another process of this machine uses too (torch.multiprocessing). The text that crosses over names the
// process and the open files of the chunks that the block lies in; the other side takes the files over and maps them.
// Who keeps the block alive meanwhile is PyTorch's business.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace gmlake {

struct SharedBlock {
  std::ptrdiff_t offset = 0;  // of the block from where the chunks begin
  std::string handle;         // the same for all blocks in the same chunks
};

// Both throw with one sentence: InvalidArgument for what is no block or no such handle, DriverError for what the driver
// or the kernel does not allow.
SharedBlock share_block(void* block);
std::shared_ptr<void> open_shared(const std::string& handle);  // where the chunks begin; unmapped with the last owner

}  // namespace gmlake
