// What a reduction computes. Contributions are combined in the order of the ranks, in a wider type (half and smaller in
// float, float in double), and rounded once: the result is the same on every rank and from run to run. A real ring
// rounds at every hop and may differ in the last bits.
#pragma once

#include <cstddef>

#include "libraries/collectives/abi.h"

namespace gmlake::collectives {

enum class Combine : int { sum = 0, product = 1, maximum = 2, minimum = 3, average = 4 };

std::size_t size_of(Type type);
const char* name_of(Type type);

// result[i] = contributions[0][i] and contributions[1][i] and ..., each first multiplied by its rank's factor if there
// are factors. The result may be one of the contributions.
void reduce(Type type, Combine combine, std::size_t count, void* result, const void* const* contributions, int ranks,
            const double* factors);

// The same for `ranks` contributions that all equal `values`, in place.
void reduce_equal(Type type, Combine combine, std::size_t count, void* values, int ranks, const double* factor);

// A single number of this type, as a factor.
double number(Type type, const void* at);

}  // namespace gmlake::collectives
