// Which devices reach each other's memory. On some cards none does, and without a switch between them a device has room
// for a few peers only: that is configured. A connection, once made, lasts as long as the process.
#pragma once

#include "device/status.h"

namespace gmlake::device::peers {

// Whether one could reach the other, as CUDA answers without regard to how many it has.
bool reachable(int device, int other);
// Connects the two if they are not. invalid_device: they cannot reach each other; too_many_peers: one has no room.
Status connect(int device, int other);

}  // namespace gmlake::device::peers
