// Which private pool serves a request: the scopes that begin_pool and end_pool open and close, and how many uses every
// pool still has. It knows ids only; whoever holds it keeps the pools' memory.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "allocator/allocator.h"
#include "base/vocabulary.h"

namespace gmlake {

class PoolScopes {
 public:
  void retain(PoolId pool);  // one use more, without a scope
  int uses(PoolId pool) const;
  void begin(PoolId pool, StreamFilter filter);
  void end(PoolId pool);
  void release(PoolId pool);  // one use fewer

  bool open() const { return !scopes_.empty(); }
  PoolId match(Stream stream) const;  // the innermost open scope that takes this stream; {0, 0} when there is none
  bool released(PoolId pool) const;   // known, and its last use is gone
  void forget(PoolId pool);           // the pool's memory is gone as well

 private:
  using Scope = std::pair<PoolId, StreamFilter>;

  bool is_open(PoolId pool) const;

  std::vector<Scope> scopes_;
  std::map<PoolId, int> uses_;
};

}  // namespace gmlake
