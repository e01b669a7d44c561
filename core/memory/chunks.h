// Physical memory: the chunks that exist, how many bytes they are, and how they are created, mapped, unmapped and given
// back. A chunk is mapped whole. Where its mappings are and who uses them is not known here.
#pragma once

#include <span>
#include <vector>

#include "base/store.h"
#include "driver/driver.h"
#include "watch/statistics.h"

namespace gmlake {

struct Chunk {
  Handle handle = 0;
  Bytes size = 0;
  Address home = 0;           // its address in an arena; 0 while it is loose
  std::uint32_t aliases = 0;  // sBlocks that map it too
  PoolKind kind = PoolKind::large;
};

class Chunks {
 public:
  Chunks(Driver& driver, Statistics& statistics) : driver_(driver), statistics_(statistics) {}
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;
  ~Chunks();  // asks the driver again to take back what it has refused

  Bytes reserved() const { return reserved_; }
  Bytes doomed_bytes() const;  // of chunks that the driver refused to take back

  // As many new chunks as there is room for. False: the driver refused one of them, and there are none.
  bool create(Bytes size, PoolKind kind, PoolId pool, std::span<Chunk*> made);
  void destroy(Chunk* chunk, PoolId pool);  // must be unmapped everywhere; the pool is the one it was created for

  // Maps the chunks one after the other from `at` on, and grants access to the whole run, or changes nothing.
  bool map_run(Address at, std::span<Chunk* const> run);
  bool unmap(Address at, Bytes size);  // false: the driver refused
  void undo(Address at, Bytes size);   // unmaps what nobody uses, now or on retry
  void change_kind(Chunk* chunk, PoolKind kind);

  // What the driver refused to destroy or undo is remembered; this tries again.
  void retry() {
    if (!stuck_.empty() || !doomed_.empty()) [[unlikely]]
      try_again();
  }

 private:
  struct Doomed {
    Chunk* chunk;
    PoolId pool;
  };
  bool try_destroy(const Doomed& doomed);
  void try_again();

  Driver& driver_;
  Statistics& statistics_;
  Store<Chunk> store_;
  std::vector<Handle> handles_;  // of the call that is made
  std::vector<Span> stuck_;      // mappings that could not be undone
  std::vector<Doomed> doomed_;   // chunks that could not be destroyed
  Bytes reserved_ = 0;
};

}  // namespace gmlake
