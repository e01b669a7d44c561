#include "baselines/pool_scopes.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace gmlake {

void PoolScopes::retain(PoolId pool) {
  if (!pool) throw InvalidArgument("pool (0, 0) is the ordinary pool; a private pool needs another id");
  ++uses_[pool];
}

int PoolScopes::uses(PoolId pool) const {
  const auto uses = uses_.find(pool);
  return uses == uses_.end() ? 0 : uses->second;
}

void PoolScopes::begin(PoolId pool, StreamFilter filter) {
  if (is_open(pool)) throw InvalidArgument("pool " + written(pool) + " has begun already; end it first");
  retain(pool);
  scopes_.emplace_back(pool, std::move(filter));
}

void PoolScopes::end(PoolId pool) {
  const auto scope = std::ranges::find(scopes_, pool, &Scope::first);
  if (scope == scopes_.end()) throw InvalidArgument("pool " + written(pool) + " has not begun; begin it first");
  scopes_.erase(scope);
}

void PoolScopes::release(PoolId pool) {
  const auto uses = uses_.find(pool);
  if (uses == uses_.end()) throw InvalidArgument("pool " + written(pool) + " does not exist; begin it first");
  if (uses->second == 0) throw InvalidArgument("pool " + written(pool) + " has no use left to release");
  if (uses->second == 1 && is_open(pool))
    throw InvalidArgument("pool " + written(pool) + " is still allocated to; end it before its last release");
  --uses->second;
}

PoolId PoolScopes::match(Stream stream) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (scope->second(stream)) return scope->first;
  return {};
}

bool PoolScopes::released(PoolId pool) const {
  const auto uses = uses_.find(pool);
  return uses != uses_.end() && uses->second == 0;
}

void PoolScopes::forget(PoolId pool) {
  uses_.erase(pool);
}

bool PoolScopes::is_open(PoolId pool) const {
  return std::ranges::find(scopes_, pool, &Scope::first) != scopes_.end();
}

}  // namespace gmlake
