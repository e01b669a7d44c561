#include "memory/chunks.h"

#include <utility>

namespace gmlake {

Chunks::~Chunks() {
  retry();
  retry();  // what it refuses the first time it may take the second
}

Bytes Chunks::doomed_bytes() const {
  Bytes bytes = 0;
  for (const Doomed& doomed : doomed_) bytes += doomed.chunk->size;
  return bytes;
}

bool Chunks::create(Bytes size, PoolKind kind, PoolId pool, std::span<Chunk*> made) {
  handles_.resize(made.size());
  std::size_t done = 0;
  const bool all = driver_.create(size, handles_, done) == Status::success;
  for (std::size_t i = 0; i < done; ++i) made[i] = store_.make({.handle = handles_[i], .size = size, .kind = kind});
  reserved_ += done * size;
  statistics_.segment.increase(kind, static_cast<std::int64_t>(done));
  statistics_.count_reserved(kind, pool, signed_bytes(done * size));
  statistics_.num_device_alloc += static_cast<std::int64_t>(done);
  if (!all)
    for (Chunk* chunk : made.first(done)) destroy(chunk, pool);
  return all;
}

void Chunks::destroy(Chunk* chunk, PoolId pool) {
  // While something is mapped that could not be undone it may be this one: released, it would still take memory.
  if (!stuck_.empty() || !try_destroy({chunk, pool})) doomed_.push_back({chunk, pool});
}

bool Chunks::try_destroy(const Doomed& doomed) {
  const auto [chunk, pool] = doomed;
  if (!succeeded(driver_.release(chunk->handle))) return false;
  reserved_ -= chunk->size;
  statistics_.segment.decrease(chunk->kind, 1);
  statistics_.count_reserved(chunk->kind, pool, -signed_bytes(chunk->size));
  ++statistics_.num_device_free;
  store_.drop(chunk);
  return true;
}

bool Chunks::map_run(Address at, std::span<Chunk* const> run) {
  Address end = at;
  bool mapped = true;
  for (auto next = run.begin(); mapped && next != run.end();) {
    const Bytes size = (*next)->size;
    handles_.clear();
    for (; next != run.end() && (*next)->size == size; ++next) handles_.push_back((*next)->handle);
    std::size_t done = 0;
    mapped = driver_.map(end, size, handles_, done) == Status::success;
    end += done * size;
  }
  statistics_.mapped_bytes.increase(signed_bytes(end - at));
  if (mapped && driver_.set_access(at, end - at) == Status::success) return true;
  if (end > at) undo(at, end - at);
  return false;
}

bool Chunks::unmap(Address at, Bytes size) {
  if (!succeeded(driver_.unmap(at, size))) return false;
  statistics_.mapped_bytes.decrease(signed_bytes(size));
  return true;
}

void Chunks::undo(Address at, Bytes size) {
  if (!unmap(at, size)) stuck_.push_back({at, size});
}

void Chunks::change_kind(Chunk* chunk, PoolKind kind) {
  if (chunk->kind == kind) return;
  const auto bytes = signed_bytes(chunk->size);
  statistics_.segment.by[static_cast<std::size_t>(chunk->kind)].decrease(1);
  statistics_.reserved_bytes.by[static_cast<std::size_t>(chunk->kind)].decrease(bytes);
  statistics_.segment.by[static_cast<std::size_t>(kind)].increase(1);
  statistics_.reserved_bytes.by[static_cast<std::size_t>(kind)].increase(bytes);
  chunk->kind = kind;
}

void Chunks::try_again() {
  std::erase_if(stuck_, [this](const Span& span) { return unmap(span.at, span.size); });
  if (stuck_.empty()) std::erase_if(doomed_, [this](const Doomed& doomed) { return try_destroy(doomed); });
}

}  // namespace gmlake
