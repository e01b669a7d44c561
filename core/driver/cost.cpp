#include "driver/cost.h"

#include <array>
#include <string>

#include "base/error.h"

namespace gmlake {
namespace {

// One cuMemSetAccess over a run of handles was never published: "a100" charges every handle as if it had a call of its
// own (the pessimistic reading), "a100-batched" 2 us for each further handle of a call.
constexpr std::array<CostTable, 4> tables{{
    {.name = "a100",
     .source =
         "kvcached's measurement of 2 MiB pages on an A100-80G; growth with the handle's size from table 1 of the "
         "GMLake paper; every handle pays its own cuMemSetAccess",
     .reserve = 5,
     .create = 193,
     .create_per_mib = 0.115,
     .map = 1.45,
     .access = 36,
     .access_per_mib = 1.26,
     .access_further = 36,
     .unmap = 25.6,
     .allocate = 100,
     .allocate_per_mib = 0.5,
     .free = 200},
    {.name = "a100-batched",
     .source = "as a100, but one cuMemSetAccess over a run of handles costs 2 us for each handle after the first",
     .reserve = 5,
     .create = 193,
     .create_per_mib = 0.115,
     .map = 1.45,
     .access = 36,
     .access_per_mib = 0.07,
     .access_further = 2,
     .unmap = 25.6,
     .allocate = 100,
     .allocate_per_mib = 0.5,
     .free = 200},
    {.name = "small-card",
     .source = "the same measurement on a card with 25 GB",
     .reserve = 5,
     .create = 7.6,
     .create_per_mib = 0.115,
     .map = 1.05,
     .access = 20.8,
     .access_per_mib = 1.26,
     .access_further = 20.8,
     .unmap = 11.5,
     .allocate = 100,
     .allocate_per_mib = 0.5,
     .free = 200},
    {.name = "free", .source = "every call costs nothing"},
}};

}  // namespace

std::span<const CostTable> cost_tables() {
  return tables;
}

const CostTable& cost_table(std::string_view name) {
  std::string known;
  for (const CostTable& table : tables) {
    if (table.name == name) return table;
    known += (known.empty() ? "" : ", ") + std::string(table.name);
  }
  throw InvalidArgument("unknown cost table '" + std::string(name) + "'; the tables are " + known);
}

}  // namespace gmlake
