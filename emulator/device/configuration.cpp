// Parsing of GMLAKE_DEVICE. The variable is written by the launcher, so a mistake in it is a bug: the process ends with
// one sentence rather than go on with a device that nobody asked for.
#include "device/configuration.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gmlake::device {
namespace {

using Setter = std::function<void(Configuration&, const std::string&)>;

template <class Number>
Setter number(Number Configuration::* member) {
  return [member](Configuration& configuration, const std::string& text) {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used != text.size() || value < 0) throw std::invalid_argument(text);
    // Sizes do not fit a double exactly: whole numbers are read as such.
    if constexpr (std::is_integral_v<Number>)
      configuration.*member = static_cast<Number>(std::stoull(text));
    else
      configuration.*member = value;
  };
}

Setter capability() {
  return [](Configuration& configuration, const std::string& text) {
    const std::size_t dot = text.find('.');
    if (dot == std::string::npos) throw std::invalid_argument(text);
    configuration.capability_major = std::stoi(text.substr(0, dot));
    configuration.capability_minor = std::stoi(text.substr(dot + 1));
  };
}

Setter flag(bool Configuration::* member) {
  return [member](Configuration& configuration, const std::string& text) { configuration.*member = text != "0"; };
}

const std::map<std::string, Setter, std::less<>>& setters() {
  static const std::map<std::string, Setter, std::less<>> table = {
      {"name", [](Configuration& c, const std::string& text) { c.name = text; }},
      {"memory", number(&Configuration::memory)},
      {"capability", capability()},
      {"multiprocessors", number(&Configuration::multiprocessors)},
      {"bus_width", number(&Configuration::bus_width)},
      {"l2_bytes", number(&Configuration::l2_bytes)},
      {"clock_khz", number(&Configuration::clock_khz)},
      {"memory_clock_khz", number(&Configuration::memory_clock_khz)},
      {"count", number(&Configuration::count)},
      {"peers", number(&Configuration::peers)},
      {"kernel_us", number(&Configuration::kernel_microseconds)},
      {"gigabytes_per_second", number(&Configuration::gigabytes_per_second)},
      {"data_limit", number(&Configuration::data_limit)},
      {"clock_ns", number(&Configuration::clock_nanoseconds)},
      {"session", [](Configuration& c, const std::string& text) { c.session = text; }},
      {"virtual_memory", flag(&Configuration::virtual_memory)},
      {"leaks", flag(&Configuration::leaks)},
      {"hazards", flag(&Configuration::hazards)},
      {"compute",
       [](Configuration& c, const std::string& text) {
         if (text != "0") c.data_limit = std::numeric_limits<std::size_t>::max();
       }},
      {"world_size", number(&Configuration::world_size)},
      {"rank", number(&Configuration::rank)},
  };
  return table;
}

[[noreturn]] void refuse(std::string_view entry, const char* why) {
  std::fprintf(stderr, "gmlake device: GMLAKE_DEVICE: '%.*s' %s\n", static_cast<int>(entry.size()), entry.data(), why);
  _exit(2);  // without the destructors of a library that has no configuration
}

Configuration parse(std::string_view text) {
  Configuration configuration;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) refuse(entry, "is not key=value");
    const auto setter = setters().find(entry.substr(0, equals));
    if (setter == setters().end()) refuse(entry, "has an unknown key");
    try {
      setter->second(configuration, std::string(entry.substr(equals + 1)));
    } catch (const std::exception&) {
      refuse(entry, "has a value that cannot be read");
    }
  }
  if (configuration.count > most_devices) refuse("count", "asks for more than 64 devices");
  return configuration;
}

}  // namespace

const Configuration& configuration() {
  // Never destroyed: libraries call in while the process ends.
  static const Configuration& parsed = *new Configuration([] {
    const char* text = std::getenv("GMLAKE_DEVICE");
    return parse(text == nullptr ? "" : text);
  }());
  return parsed;
}

}  // namespace gmlake::device
