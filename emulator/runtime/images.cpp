#include "runtime/images.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace gmlake::runtime::images {
namespace {

// The forms that compiled programs hold: a wrapper points to the container, in which images follow one another.
struct Wrapper {
  std::uint32_t magic, version;
  const std::byte* container;
};
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // without the header
};
struct Image {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // without the header
  std::uint32_t unused[3];
  std::uint32_t architecture;
};
constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50;
constexpr std::uint16_t source_kind = 1, machine_kind = 2;  // PTX, and code of one architecture

struct Known {
  std::mutex lock;
  std::unordered_map<const void*, const Wrapper*> kernels;
};

Known& known() {
  static Known& alive = *new Known;  // registered before and after main
  return alive;
}

// Code runs on devices of its own generation that are not older than it, sources on any that are not.
Versions best(const Wrapper* wrapper, int capability) {
  const Versions as_built{capability, capability};
  if (wrapper == nullptr || wrapper->magic != wrapper_magic || wrapper->container == nullptr) return as_built;
  const auto* container = reinterpret_cast<const Container*>(wrapper->container);
  if (container->magic != container_magic) return as_built;
  const std::byte* at = wrapper->container + container->header_bytes;
  const std::byte* end = at + container->bytes;
  int machine = 0, source = 0;
  while (at + sizeof(Image) <= end) {
    const auto* image = reinterpret_cast<const Image*>(at);
    if (image->header_bytes < sizeof(Image)) break;  // a form that is not known here
    const int architecture = static_cast<int>(image->architecture);
    if (architecture <= capability) {
      if (image->kind == machine_kind && architecture / 10 == capability / 10)
        machine = std::max(machine, architecture);
      if (image->kind == source_kind) source = std::max(source, architecture);
    }
    at += image->header_bytes + image->bytes;
  }
  if (machine != 0) return {machine, machine};
  return source != 0 ? Versions{source, capability} : as_built;
}

}  // namespace

void** add(const void* fat_binary) {
  return const_cast<void**>(reinterpret_cast<void* const*>(fat_binary));  // its own address is as good as any
}

void add_kernel(void** images, const void* kernel) {
  std::lock_guard guard(known().lock);
  known().kernels[kernel] = reinterpret_cast<const Wrapper*>(images);
}

Versions versions(const void* kernel, int capability) {
  const Wrapper* wrapper = nullptr;
  {
    std::lock_guard guard(known().lock);
    const auto found = known().kernels.find(kernel);
    if (found != known().kernels.end()) wrapper = found->second;
  }
  return best(wrapper, capability);
}

}  // namespace gmlake::runtime::images
