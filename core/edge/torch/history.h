// Where allocations come from: while somebody records PyTorch's memory history, every block that is handed out gets a
// number from the recorder, under which it keeps the stack. The number goes into the allocator's journal and is kept
// here for the blocks in use. What a stack is, and when it may be forgotten, is the recorder's business.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/vocabulary.h"

namespace gmlake::history {

// From which calls stacks are wanted, as PyTorch orders them.
enum class Level : std::uint8_t { none, state, alloc, all };

// Called on the allocating thread while no lock of ours is held; it may take its time and call back. 0: no stack.
using Gather = std::uint64_t (*)();

void start(Gather gather, Level level);  // nullptr or none: no further stacks; those of blocks in use stay known

extern std::atomic<bool> watching;  // something is to be done for allocations or frees

std::uint64_t gather_for_allocation();
std::uint64_t gather_for_free(Address block);          // without one of its own, a free is told with the allocation's
std::uint64_t told_to_journal(std::uint64_t context);  // a block's stack is not told with level `state`
void remember(Address block, std::uint64_t context);
void forget(Address block);

void annotate(Address block, const std::string& text);  // in its allocator's journal, with the stack of this call

std::uint64_t of_block(Address block);  // 0: unknown
std::vector<std::pair<Address, std::uint64_t>> of_all_blocks();

}  // namespace gmlake::history
