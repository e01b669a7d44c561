// The catalogue: one row per allocator, in the order in which tables show them.
#include "baselines/catalogue.h"

#include <string>

#include "allocator/gmlake.h"
#include "base/error.h"
#include "baselines/bfc.h"
#include "baselines/caching.h"
#include "baselines/expandable.h"
#include "baselines/native.h"
#include "baselines/paper.h"

namespace gmlake {

std::span<const CatalogueRow> catalogue() {
  static const CatalogueRow rows[] = {
      {"gmlake", "our allocator", GMLakeAllocator::option_rows(), GMLakeAllocator::make},
      {"caching", "PyTorch's caching allocator", caching_option_rows(), make_caching},
      {"expandable", "PyTorch's expandable segments", caching_option_rows(), make_expandable},
      {"paper", "GMLake as published", paper_option_rows(), make_paper},
      {"bfc", "TensorFlow's best-fit allocator with coalescing", bfc_option_rows(), make_bfc},
      {"native", "every request to the driver", {}, make_native},
  };
  return rows;
}

std::unique_ptr<Allocator> make_allocator(std::string_view spec, Driver& driver) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  std::string known;
  for (const CatalogueRow& row : catalogue()) {
    if (row.name == name) {
      Options options(row.options);
      if (colon != std::string_view::npos) options.parse(spec.substr(colon + 1));
      return row.make(driver, options);
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw InvalidArgument("there is no allocator '" + std::string(name) + "'; the allocators are " + known);
}

}  // namespace gmlake
