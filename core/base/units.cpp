#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace gmlake {
namespace {

constexpr std::array<std::pair<std::string_view, Bytes>, 8> suffixes{{{"B", 1},
                                                                      {"KiB", KiB},
                                                                      {"MiB", MiB},
                                                                      {"GiB", GiB},
                                                                      {"TiB", TiB},
                                                                      {"KB", 1000},
                                                                      {"MB", 1000 * 1000},
                                                                      {"GB", 1000 * 1000 * 1000}}};

}  // namespace

Bytes parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && std::isfinite(number) && number >= 0) {
    while (rest != end && *rest == ' ') ++rest;
    const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    if (number == 0 && suffix.empty()) return 0;  // no other number goes without a unit: 40 for 40GiB is a mistake
    for (auto [name, factor] : suffixes) {
      if (suffix != name) continue;
      const double bytes = number * static_cast<double>(factor);
      if (bytes >= 9.2e18) throw InvalidArgument("'" + std::string(text) + "' is too large for a size");
      return static_cast<Bytes>(std::llround(bytes));
    }
  }
  throw InvalidArgument("'" + std::string(text) + "' is not a size; write a number with a unit, like 80GiB or 4096B");
}

std::string format_bytes(Bytes value) {
  char text[32];
  const auto number = static_cast<double>(value);
  if (value < KiB)
    std::snprintf(text, sizeof text, "%llu B", static_cast<unsigned long long>(value));
  else if (value < MiB)
    std::snprintf(text, sizeof text, "%.2f KiB", number / static_cast<double>(KiB));
  else if (value < GiB)
    std::snprintf(text, sizeof text, "%.2f MiB", number / static_cast<double>(MiB));
  else
    std::snprintf(text, sizeof text, "%.2f GiB", number / static_cast<double>(GiB));
  return text;
}

std::string format_address(Address address) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

}  // namespace gmlake
