// See arithmetic.h. One trait per data type says how a number is stored and in what it is added up; whole numbers wrap
// around, as on the device.
#include "libraries/collectives/arithmetic.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "libraries/collectives/small_floats.h"

namespace gmlake::collectives {
namespace {

template <class Value, class Wide>
struct Plain {
  using Accumulator = Wide;
  static constexpr std::size_t size = sizeof(Value);
  static Wide load(const void* at, std::size_t i) {
    Value value;
    std::memcpy(&value, static_cast<const char*>(at) + i * size, size);
    return static_cast<Wide>(value);
  }
  static void store(void* at, std::size_t i, Wide wide) {
    const Value value = static_cast<Value>(wide);
    std::memcpy(static_cast<char*>(at) + i * size, &value, size);
  }
};

template <class Format, class Storage>
struct Small {
  using Accumulator = float;
  static constexpr std::size_t size = sizeof(Storage);
  static float load(const void* at, std::size_t i) {
    Storage bits;
    std::memcpy(&bits, static_cast<const char*>(at) + i * size, size);
    return Format::decode(bits);
  }
  static void store(void* at, std::size_t i, float value) {
    const Storage bits = Format::encode(value);
    std::memcpy(static_cast<char*>(at) + i * size, &bits, size);
  }
};

template <class Visit>
auto visit(Type type, Visit visit_type) {
  switch (type) {
    case Type::int8:
      return visit_type(Plain<std::int8_t, std::int64_t>{});
    case Type::uint8:
      return visit_type(Plain<std::uint8_t, std::uint64_t>{});
    case Type::int32:
      return visit_type(Plain<std::int32_t, std::int64_t>{});
    case Type::uint32:
      return visit_type(Plain<std::uint32_t, std::uint64_t>{});
    case Type::int64:
      return visit_type(Plain<std::int64_t, std::int64_t>{});
    case Type::uint64:
      return visit_type(Plain<std::uint64_t, std::uint64_t>{});
    case Type::float16:
      return visit_type(Small<Half, std::uint16_t>{});
    case Type::float32:
      return visit_type(Plain<float, double>{});
    case Type::float64:
      return visit_type(Plain<double, double>{});
    case Type::bfloat16:
      return visit_type(Small<Bfloat16, std::uint16_t>{});
    case Type::float8_e4m3:
      return visit_type(Small<Float8E4M3, std::uint8_t>{});
    case Type::float8_e5m2:
      break;
  }
  return visit_type(Small<Float8E5M2, std::uint8_t>{});
}

// Signed whole numbers wrap, without the undefined behaviour of their own addition.
template <class Number>
Number add(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>)
    return static_cast<Number>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}

template <class Number>
Number multiply(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>)
    return static_cast<Number>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

template <class Number>
Number step(Combine combine, Number a, Number b) {
  switch (combine) {
    case Combine::product:
      return multiply(a, b);
    case Combine::maximum:
      return std::isnan(static_cast<double>(a)) || a > b ? a : b;
    case Combine::minimum:
      return std::isnan(static_cast<double>(a)) || a < b ? a : b;
    case Combine::sum:
    case Combine::average:
      break;
  }
  return add(a, b);
}

template <class Trait, class At, class Factor>
void combine_all(Combine combine, std::size_t count, void* result, int ranks, At at, Factor factor) {
  using Wide = typename Trait::Accumulator;
  for (std::size_t i = 0; i < count; ++i) {
    Wide total = factor(0, Trait::load(at(0), i));
    for (int rank = 1; rank < ranks; ++rank) total = step(combine, total, factor(rank, Trait::load(at(rank), i)));
    Trait::store(result, i, combine == Combine::average ? static_cast<Wide>(total / static_cast<Wide>(ranks)) : total);
  }
}

}  // namespace

std::size_t size_of(Type type) {
  return visit(type, [](auto trait) { return decltype(trait)::size; });
}

const char* name_of(Type type) {
  static constexpr const char* names[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",       "uint64",
                                          "float16", "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  return names[static_cast<int>(type)];
}

void reduce(Type type, Combine combine, std::size_t count, void* result, const void* const* contributions, int ranks,
            const double* factors) {
  visit(type, [=](auto trait) {
    using Trait = decltype(trait);
    using Wide = typename Trait::Accumulator;
    const auto at = [=](int rank) { return contributions[rank]; };
    if (factors == nullptr)
      combine_all<Trait>(combine, count, result, ranks, at, [](int, Wide value) { return value; });
    else
      combine_all<Trait>(combine, count, result, ranks, at,
                         [=](int rank, Wide value) { return multiply(value, static_cast<Wide>(factors[rank])); });
  });
}

void reduce_equal(Type type, Combine combine, std::size_t count, void* values, int ranks, const double* factor) {
  const bool unchanged = combine == Combine::maximum || combine == Combine::minimum || combine == Combine::average;
  if (factor == nullptr && (unchanged || ranks == 1)) return;
  visit(type, [=](auto trait) {
    using Trait = decltype(trait);
    using Wide = typename Trait::Accumulator;
    const auto at = [=](int) { return static_cast<const void*>(values); };
    combine_all<Trait>(combine, count, values, ranks, at, [=](int, Wide value) {
      return factor == nullptr ? value : multiply(value, static_cast<Wide>(*factor));
    });
  });
}

double number(Type type, const void* at) {
  return visit(type, [=](auto trait) { return static_cast<double>(decltype(trait)::load(at, 0)); });
}

}  // namespace gmlake::collectives
