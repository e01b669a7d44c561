// Operators that a program makes for a communicator (ncclRedOpCreatePreMulSum), and what an operator's number means.
#pragma once

#include "libraries/collectives/call.h"

namespace gmlake::collectives {

// The number of a new operator that multiplies each contribution first and adds up then.
int make_scaled_sum(void* communicator, Type type, const void* factor, Residence residence);
bool remove_reduction(void* communicator, int number);
// False if the communicator has no operator of this number for this type.
bool find_reduction(void* communicator, int number, Type type, Reduction& reduction);
void remove_reductions(void* communicator);

}  // namespace gmlake::collectives
