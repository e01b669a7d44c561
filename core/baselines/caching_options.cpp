#include "baselines/caching_options.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include "base/error.h"

namespace gmlake {
namespace {

using Kind = OptionRow::Kind;

constexpr OptionRow rows[] = {
    {"max_split_size_mb", Kind::integer, "-1", "blocks of at least this size are never split; -1 splits all"},
    {"max_non_split_rounding_mb", Kind::integer, "-1",
     "how much larger than the request an unsplit block may be; -1 is large_segment_size_mb"},
    {"roundup_power2_divisions", Kind::text, "0",
     "round requests up to so many steps between powers of two; or a list by size in MiB, like [256:1,512:2,>:8]"},
    {"garbage_collection_threshold", Kind::real, "0",
     "give old unused blocks back above this share of the limit; acts only with a limit; 0 is off"},
    {"large_segment_size_mb", Kind::integer, "20", "what requests of 1 to 10 MiB grow the pool by"},
    {"ties", Kind::text, "registration",
     "of blocks of equal size take the one in the oldest segment (registration, PyTorch now) or the lowest (address)"},
};

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw InvalidArgument("option " + std::string(name) + " is '" + std::string(value) + "'; it must be " +
                        std::string(expected));
}

Bytes parse_divisions(std::string_view text) {
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || (value != 0 && !std::has_single_bit(value)))
    refuse("roundup_power2_divisions", text, "0 or a power of two, or a list such as [256:1,512:2,>:8]");
  return value;
}

// The interval of a size: sizes up to 2 MiB are in the first, from 32 GiB on in the last.
std::size_t interval_of(Bytes size) {
  const int power = std::bit_width(size | 1) - std::bit_width(MiB);
  return static_cast<std::size_t>(std::clamp(power, 0, 15));
}

// "256:1,512:2,>:8": the first entry counts for all below it as well, ">" for all above the entry before it.
void parse_division_list(std::string_view list, std::array<Bytes, 16>& divisions) {
  auto next = divisions.begin();
  bool first = true;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) refuse("roundup_power2_divisions", entry, "a list of pairs such as 256:4");
    const Bytes value = parse_divisions(entry.substr(colon + 1));
    if (entry.substr(0, colon) == ">") {
      std::fill(next, divisions.end(), value);
      continue;
    }
    const auto own =
        divisions.begin() + static_cast<std::ptrdiff_t>(interval_of(parse_divisions(entry.substr(0, colon)) * MiB));
    if (first) std::fill(divisions.begin(), own, value);
    first = false;
    *own = value;
    next = own + 1;
  }
}

// Megabytes, or the fallback where the text says -1.
Bytes megabytes(const Options& options, std::string_view name, Bytes least, Bytes fallback) {
  const std::int64_t value = options.integer(name);
  if (value == -1) return fallback;
  if (value < static_cast<std::int64_t>(least / MiB) || value > static_cast<std::int64_t>(TiB / MiB) * 1024)
    refuse(name, options.text(name), "at least " + std::to_string(least / MiB));
  return static_cast<Bytes>(value) * MiB;
}

// The next of `divisions` equal steps between two powers of two.
Bytes next_division(Bytes size, Bytes divisions) {
  if (std::has_single_bit(size)) return size;
  const Bytes step = std::bit_floor(size) >> (std::bit_width(divisions) - 1);
  return step == 0 ? std::bit_ceil(size) : round_up(size, step);
}

}  // namespace

std::span<const OptionRow> caching_option_rows() {
  return rows;
}

CachingOptions::CachingOptions(const Options& options) {
  large_segment = megabytes(options, "large_segment_size_mb", own_segment + MiB, large_segment);
  max_split = megabytes(options, "max_split_size_mb", large_segment, unlimited);
  max_non_split_rounding = megabytes(options, "max_non_split_rounding_mb", large_segment, large_segment);
  garbage_collection_threshold = options.real("garbage_collection_threshold");
  if (garbage_collection_threshold < 0 || garbage_collection_threshold >= 1)
    refuse("garbage_collection_threshold", options.text("garbage_collection_threshold"), "from 0 to below 1");
  const std::string& division_text = options.text("roundup_power2_divisions");
  if (division_text.starts_with('[') && division_text.ends_with(']'))
    parse_division_list(std::string_view(division_text).substr(1, division_text.size() - 2), roundup_divisions);
  else
    roundup_divisions.fill(parse_divisions(division_text));
  const std::string& tie_text = options.text("ties");
  if (tie_text != "address" && tie_text != "registration") refuse("ties", tie_text, "address or registration");
  ties = tie_text == "address" ? Ties::address : Ties::registration;
}

Bytes CachingOptions::rounded(Bytes size) const {
  if (size < block_step) return block_step;
  const Bytes divisions = roundup_divisions[interval_of(size)];
  return divisions > 1 && size > block_step * divisions ? next_division(size, divisions) : round_up(size, block_step);
}

Bytes CachingOptions::segment_size(Bytes rounded_size) const {
  if (rounded_size <= small_request) return small_segment;
  return rounded_size < own_segment ? large_segment : round_up(rounded_size, segment_step);
}

}  // namespace gmlake
