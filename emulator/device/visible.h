// Which devices of the machine this process sees, and in which order: CUDA_VISIBLE_DEVICES, read once, by the first
// call that asks. A process counts the devices that it sees (ordinals); what is shared with others counts those of the
// machine (physical): capacity, NVML, UUIDs, bus numbers, and memory that is exported.
#pragma once

#include <string>

namespace gmlake::device::visible {

int count();
int physical(int ordinal);
// `otherwise` if this process does not see the device.
int ordinal(int physical, int otherwise);
// Of a physical device, as NVML writes it.
std::string uuid(int physical);

}  // namespace gmlake::device::visible
