// Calls between ncclGroupStart and ncclGroupEnd are kept and launched together at the end, per thread. Sends go first
// and receives from oneself last, so that calls of a group may stand in any order.
#pragma once

#include "libraries/collectives/communicator.h"

namespace gmlake::collectives::group {

void start();
Result end();
bool open();

// Launches now, or at the end of the group that is open.
Result submit(Shared communicator, const Call& call, device::StreamHandle stream);
// A communicator made within a group waits for its other ranks at the end.
Result gather_ranks(Shared communicator);

}  // namespace gmlake::collectives::group
