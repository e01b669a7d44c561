// Every allocator by name: "gmlake", and the ones we compare it with. A spec is NAME or NAME:option=value,option=value.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "allocator/allocator.h"
#include "base/options.h"
#include "driver/driver.h"

namespace gmlake {

struct CatalogueRow {
  std::string_view name;
  std::string_view meaning;  // one line, for tables and help
  std::span<const OptionRow> options;
  std::unique_ptr<Allocator> (*make)(Driver& driver, const Options& options);
};

std::span<const CatalogueRow> catalogue();

// The driver must outlive the allocator. Throws InvalidArgument for an unknown name or option.
std::unique_ptr<Allocator> make_allocator(std::string_view spec, Driver& driver);

}  // namespace gmlake
