#include "baselines/failures.h"

#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace gmlake {
namespace {

constexpr Bytes largest_request = Bytes{1} << 56;

Bytes bytes_of(const StatArray& stat) {
  return static_cast<Bytes>(stat.all().current);
}

}  // namespace

void expect_success(Status status, std::string_view call) {
  if (succeeded(status)) return;
  throw DriverError("the driver's call '" + std::string(call) + "' returned '" + std::string(to_string(status)) +
                    "'; it must succeed");
}

void check_size(Bytes size) {
  if (size <= largest_request) return;
  throw InvalidArgument("a request for " + std::to_string(size) + " bytes is more than any device has; at most " +
                        std::to_string(largest_request) + " bytes can be asked for");
}

void throw_unknown_address(Address address) {
  throw InvalidArgument("address " + format_address(address) + " is not allocated; it must be one that allocate " +
                        "returned and that was not released since");
}

void throw_out_of_memory(Driver& driver, Bytes asked, Stream stream, const Statistics& statistics,
                         std::optional<Bytes> limit, Bytes free_in_private_pools) {
  Bytes free = 0, total = 0;
  const bool known = driver.memory_info(free, total) == Status::success;
  const Bytes allocated = bytes_of(statistics.allocated_bytes);
  const Bytes reserved = bytes_of(statistics.reserved_bytes);
  std::string text = "out of memory: tried to allocate " + format_bytes(asked) + " on stream " +
                     std::to_string(stream) + " of device " + std::to_string(driver.device());
  if (known) text += ", which has " + format_bytes(free) + " of " + format_bytes(total) + " free";
  if (limit) text += "; " + format_bytes(*limit) + " are allowed";
  text += "; " + format_bytes(allocated) + " are allocated and " + format_bytes(reserved - allocated) +
          " reserved but not allocated";
  if (free_in_private_pools > 0) text += ", " + format_bytes(free_in_private_pools) + " of them in private pools";
  throw OutOfMemory(text);
}

void expect(bool condition, std::string_view allocator, std::string_view invariant) {
  if (!condition) throw BrokenInvariant(std::string(allocator) + ": " + std::string(invariant) + " does not hold");
}

void expect_same(const Statistics& counted, const Statistics& kept, std::string_view allocator) {
  using Member = StatArray Statistics::*;
  constexpr std::pair<Member, std::string_view> members[] = {
      {&Statistics::allocation, "allocation"},
      {&Statistics::segment, "segment"},
      {&Statistics::active, "active"},
      {&Statistics::inactive_split, "inactive_split"},
      {&Statistics::allocated_bytes, "allocated_bytes"},
      {&Statistics::reserved_bytes, "reserved_bytes"},
      {&Statistics::active_bytes, "active_bytes"},
      {&Statistics::inactive_split_bytes, "inactive_split_bytes"},
      {&Statistics::requested_bytes, "requested_bytes"},
  };
  for (const auto& [member, name] : members) {
    for (std::size_t pool = 0; pool < 3; ++pool) {
      const std::int64_t found = (counted.*member).by[pool].current;
      const std::int64_t said = (kept.*member).by[pool].current;
      if (found != said)
        throw BrokenInvariant(std::string(allocator) + ": " + std::string(name) + " is kept as " +
                              std::to_string(said) + ", but counting the blocks gives " + std::to_string(found));
    }
  }
}

}  // namespace gmlake
