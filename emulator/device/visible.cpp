// The rules are those that NVIDIA documents, and for what it leaves open those that PyTorch has found and follows when
// it counts devices without CUDA: numbers are read as strtol does, the first entry decides whether all are numbers or
// UUIDs, an entry that names no device ends the list, and one that is repeated makes it empty.
#include "device/visible.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "device/configuration.h"

namespace gmlake::device::visible {
namespace {

constexpr int none = -1;

int numbered(const std::string& entry) {
  char* end = nullptr;
  const long number = std::strtol(entry.c_str(), &end, 10);
  return end != entry.c_str() && number >= 0 && number < configuration().count ? static_cast<int>(number) : none;
}

int called(const std::string& beginning) {
  int found = none;
  for (int device = 0; device < configuration().count; ++device) {
    if (!uuid(device).starts_with(beginning)) continue;
    if (found != none) return none;  // ambiguous
    found = device;
  }
  return found;
}

std::vector<int> parse(std::string_view text) {
  std::vector<int> devices;
  const auto find = text.starts_with("GPU-") ? called : numbered;
  for (;;) {
    const std::string_view entry = text.substr(0, text.find(','));
    const int device = find(std::string(entry));
    if (device == none) return devices;
    if (std::ranges::find(devices, device) != devices.end()) return {};
    devices.push_back(device);
    if (entry.size() == text.size()) return devices;
    text.remove_prefix(entry.size() + 1);
  }
}

const std::vector<int>& devices() {
  // Never destroyed: libraries call in while the process ends.
  static const std::vector<int>& seen = *new std::vector<int>([] {
    std::vector<int> all(static_cast<std::size_t>(configuration().count));
    std::iota(all.begin(), all.end(), 0);
    const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
    return text == nullptr ? all : parse(text);
  }());
  return seen;
}

}  // namespace

int count() {
  return static_cast<int>(devices().size());
}

int physical(int ordinal) {
  return devices()[static_cast<std::size_t>(ordinal)];
}

int ordinal(int physical, int otherwise) {
  const auto found = std::ranges::find(devices(), physical);
  return found == devices().end() ? otherwise : static_cast<int>(found - devices().begin());
}

std::string uuid(int physical) {
  // "gmlake emulated" in hexadecimal, as the driver gives it (cuDeviceGetUuid); the last byte is the device.
  char text[64];
  std::snprintf(text, sizeof text, "GPU-676d6c61-6b65-2065-6d75-6c61746564%02x", static_cast<unsigned>(physical));
  return text;
}

}  // namespace gmlake::device::visible
