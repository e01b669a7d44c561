// How much of each device's memory is in use, by all processes of a run together: two ranks on one card share it, as
// they would share the real one. A process that dies gives its share back. Devices are the machine's here (visible.h).
#pragma once

#include <cstddef>

namespace gmlake::device::capacity {

// False, and nothing taken, when the device has not that much left.
bool take(int device, std::size_t size);
void give(int device, std::size_t size);
// Of this process.
std::size_t used(int device);
std::size_t peak(int device);
// Of the device: what nobody has taken.
std::size_t free(int device);

}  // namespace gmlake::device::capacity
