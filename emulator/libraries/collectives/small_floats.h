// Floating-point numbers of 8 and 16 bits, which C++20 does not have: to float exactly, and back rounded to the
// nearest, ties to even. One template for all of them; they differ in the number of bits and in what the largest
// exponent means.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace gmlake::collectives {

// With infinities the largest exponent holds infinity and NaN, as in IEEE 754; without (e4m3) only the pattern of all
// ones is NaN. What is too large becomes infinite or, where conversions saturate, the largest number.
template <class Storage, int exponent_bits, int mantissa_bits, bool infinities, bool saturates>
struct SmallFloat {
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t mantissa_mask = (1u << mantissa_bits) - 1;
  static constexpr std::uint32_t exponent_mask = (1u << exponent_bits) - 1;
  static constexpr std::uint32_t sign_bit = 1u << (exponent_bits + mantissa_bits);
  static constexpr std::uint32_t infinite = exponent_mask << mantissa_bits;
  static constexpr std::uint32_t not_a_number = sign_bit - 1;
  static constexpr int dropped = 23 - mantissa_bits;

  static float decode(Storage bits) {
    const std::uint32_t sign = (bits & sign_bit) != 0 ? 0x80000000u : 0;
    const std::uint32_t magnitude = bits & (sign_bit - 1);
    const std::uint32_t exponent = magnitude >> mantissa_bits;
    const bool special = infinities ? exponent == exponent_mask : magnitude == not_a_number;
    if (special) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & mantissa_mask) << dropped);
    if (bias == 127 || exponent > 0)
      return std::bit_cast<float>(sign | ((magnitude << dropped) + (static_cast<std::uint32_t>(127 - bias) << 23)));
    const float step = std::bit_cast<float>(static_cast<std::uint32_t>(128 - bias - mantissa_bits) << 23);
    const float value = static_cast<float>(magnitude) * (bias == 127 ? 0.0f : step);
    return sign != 0 ? -value : value;
  }

  static Storage encode(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (all >> 31) != 0 ? sign_bit : 0;
    const std::uint32_t magnitude = all & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<Storage>(sign | not_a_number);
    const std::uint32_t beyond = infinities ? infinite : not_a_number;
    const std::uint32_t largest = saturates ? beyond - 1 : beyond;
    if (magnitude == 0x7f800000u) return static_cast<Storage>(sign | largest);
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
    std::uint32_t rounded;
    if (bias == 127 || exponent > 0) {
      rounded = round(magnitude - (static_cast<std::uint32_t>(127 - bias) << 23), dropped);
    } else {  // too small for a leading one: the mantissa moves right
      const int shift = dropped + 1 - exponent;
      rounded = shift > 25 ? 0 : round((magnitude & 0x7fffffu) | 0x800000u, shift);
    }
    return static_cast<Storage>(sign | (rounded > largest ? largest : rounded));
  }

 private:
  static constexpr std::uint32_t round(std::uint32_t value, int bits) {
    const std::uint32_t odd = (value >> bits) & 1;
    return (value + ((1u << (bits - 1)) - 1) + odd) >> bits;
  }
};

using Half = SmallFloat<std::uint16_t, 5, 10, true, false>;
using Bfloat16 = SmallFloat<std::uint16_t, 8, 7, true, false>;
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, false, true>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, true, true>;

}  // namespace gmlake::collectives
