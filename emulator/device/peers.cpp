// See peers.h.
#include "device/peers.h"

#include <bit>
#include <cstdint>
#include <mutex>

#include "device/configuration.h"

namespace gmlake::device::peers {
namespace {

std::mutex lock;
std::uint64_t connected[most_devices];  // one bit per peer

bool has_room(int device) {
  return std::popcount(connected[device]) < configuration().peers;
}

}  // namespace

bool reachable(int device, int other) {
  return device != other && configuration().peers > 0;
}

Status connect(int device, int other) {
  if (device == other) return Status::success;
  if (!reachable(device, other)) return Status::invalid_device;
  std::lock_guard guard(lock);
  const std::uint64_t bit = std::uint64_t{1} << other;
  if ((connected[device] & bit) != 0) return Status::success;
  if (!has_room(device) || !has_room(other)) return Status::too_many_peers;
  connected[device] |= bit;
  connected[other] |= std::uint64_t{1} << device;
  return Status::success;
}

}  // namespace gmlake::device::peers
