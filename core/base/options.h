// Options of an allocator: a table of rows (name, kind, default, meaning) and a set of values parsed from
// "name=value,name=value". Unknown names and impossible values throw InvalidArgument. The same rows feed the command
// line, the environment and the documentation.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/vocabulary.h"

namespace gmlake {

struct OptionRow {
  enum class Kind : std::uint8_t { bytes, real, integer, boolean, text };
  std::string_view name;
  Kind kind;
  std::string_view fallback;  // the default, as it would be written
  std::string_view meaning;   // one line
};

class Options {
 public:
  explicit Options(std::span<const OptionRow> rows);

  void parse(std::string_view text);  // "a=1,b=2"
  void set(std::string_view name, std::string_view value);

  Bytes bytes(std::string_view name) const;
  double real(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;

 private:
  const OptionRow& row(std::string_view name) const;

  std::span<const OptionRow> rows_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace gmlake
