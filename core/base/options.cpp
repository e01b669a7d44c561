#include "base/options.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

double to_real(std::string_view name, std::string_view value) {
  double number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number))
    throw InvalidArgument("option " + std::string(name) + " needs a number, not '" + std::string(value) + "'");
  return number;
}

std::int64_t to_integer(std::string_view name, std::string_view value) {
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size())
    throw InvalidArgument("option " + std::string(name) + " needs a whole number, not '" + std::string(value) + "'");
  return number;
}

bool to_boolean(std::string_view name, std::string_view value) {
  if (value == "1" || value == "true" || value == "True") return true;
  if (value == "0" || value == "false" || value == "False") return false;
  throw InvalidArgument("option " + std::string(name) + " needs true or false, not '" + std::string(value) + "'");
}

// The comma that ends the first name=value; those within [ ] belong to its value.
std::size_t end_of_pair(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::size_t list = text.find("=[");
  if (comma == std::string_view::npos || list > comma) return comma;
  const std::size_t end = text.find(']');
  return end == std::string_view::npos ? end : text.find(',', end);
}

}  // namespace

Options::Options(std::span<const OptionRow> rows) : rows_(rows) {
  for (const OptionRow& row : rows) values_.emplace(row.name, row.fallback);
}

const OptionRow& Options::row(std::string_view name) const {
  std::string known;
  for (const OptionRow& row : rows_) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw InvalidArgument("unknown option '" + std::string(name) + "'; " +
                        (known.empty() ? "this allocator has no options" : "the options are " + known));
}

void Options::parse(std::string_view text) {
  while (!text.empty()) {
    const std::size_t comma = end_of_pair(text);
    const std::string_view pair = text.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      throw InvalidArgument("'" + std::string(pair) + "' is not an option; write name=value");
    set(pair.substr(0, equals), pair.substr(equals + 1));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
}

void Options::set(std::string_view name, std::string_view value) {
  switch (row(name).kind) {  // reject now what a later read could not convert
    case OptionRow::Kind::bytes:
      parse_bytes(value);
      break;
    case OptionRow::Kind::real:
      to_real(name, value);
      break;
    case OptionRow::Kind::integer:
      to_integer(name, value);
      break;
    case OptionRow::Kind::boolean:
      to_boolean(name, value);
      break;
    case OptionRow::Kind::text:
      break;
  }
  values_.find(name)->second = value;
}

const std::string& Options::text(std::string_view name) const {
  return values_.find(row(name).name)->second;
}
Bytes Options::bytes(std::string_view name) const {
  return parse_bytes(text(name));
}
double Options::real(std::string_view name) const {
  return to_real(name, text(name));
}
std::int64_t Options::integer(std::string_view name) const {
  return to_integer(name, text(name));
}
bool Options::boolean(std::string_view name) const {
  return to_boolean(name, text(name));
}

}  // namespace gmlake
