// Sizes: constants, rounding, and their written form ("512MiB"), beside that of addresses. Everything in the core
// counts bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/vocabulary.h"

namespace gmlake {

inline constexpr Bytes KiB = Bytes{1} << 10;
inline constexpr Bytes MiB = Bytes{1} << 20;
inline constexpr Bytes GiB = Bytes{1} << 30;
inline constexpr Bytes TiB = Bytes{1} << 40;

inline constexpr Bytes unit = 512;  // every block's size and address is a multiple, as in PyTorch's own allocator
inline constexpr Bytes page_size = 2 * MiB;  // every chunk's size and address is a multiple: what the driver maps

constexpr Bytes round_up(Bytes value, Bytes step) {
  return (value + step - 1) / step * step;
}
constexpr Bytes round_down(Bytes value, Bytes step) {
  return value / step * step;
}

// Bytes of a product or quotient, which may be absurdly large.
constexpr Bytes bytes_of(double value) {
  return value < 0x1p63 ? static_cast<Bytes>(value) : Bytes{1} << 63;
}

// "512MiB", "1.5GiB", "20971520B" -> bytes; throws InvalidArgument that names the text and what was expected.
Bytes parse_bytes(std::string_view text);

// 20971520 -> "20.00 MiB"
std::string format_bytes(Bytes value);

// 20971520 -> "0x1400000"
std::string format_address(Address address);

}  // namespace gmlake
