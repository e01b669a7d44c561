// Modelled microseconds per driver call, from published measurements; presets by name. Nothing here was measured by us.
#pragma once

#include <span>
#include <string_view>

namespace gmlake {

struct CostTable {
  std::string_view name;
  std::string_view source;      // where the numbers come from, for the documentation
  double reserve = 0;           // per call
  double create = 0;            // per handle of 2 MiB ...
  double create_per_mib = 0;    // ... and for every further MiB
  double map = 0;               // per handle
  double access = 0;            // per handle of 2 MiB in the range ...
  double access_per_mib = 0;    // ... and for every further MiB of a handle
  double access_further = 0;    // per handle after the first of one call
  double unmap = 0;             // per handle
  double release = 0;           // per handle
  double free_range = 0;        // per call
  double allocate = 0;          // per call ...
  double allocate_per_mib = 0;  // ... and per MiB
  double free = 0;              // per call
  double record = 0, query = 0, wait = 0, synchronize = 0;
};

// Throws InvalidArgument for an unknown name and lists the known ones.
const CostTable& cost_table(std::string_view name);
std::span<const CostTable> cost_tables();

}  // namespace gmlake
