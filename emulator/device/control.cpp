// What the Python side of an emulated process asks of the device, by C functions, and the one function of PyTorch's
// that is answered here in its place: the allocator's report to the profiler tells when a block is handed out again.
#include <dlfcn.h>

#include "device/device.h"
#include "device/hazards.h"

using namespace gmlake::device;

namespace {

std::atomic<void (*)(std::uint64_t)> replayed{nullptr};

struct LeakReport {
  ~LeakReport() {
    if (!configuration().leaks) return;
    const memory::Census left = memory::census();
    if (left.handles + left.ranges + left.mappings + left.allocations == 0) return;
    say("left at exit: %zu handles, %zu address ranges, %zu mappings, %zu allocations, %zu bytes of device memory",
        left.handles, left.ranges, left.mappings, left.allocations, left.bytes);
  }
} leak_report;

}  // namespace

GMLAKE_EXPORT std::size_t gmlake_device_used(int device) {
  return exists(device) ? capacity::used(visible::physical(device)) : 0;
}

GMLAKE_EXPORT std::size_t gmlake_device_peak(int device) {
  return exists(device) ? capacity::peak(visible::physical(device)) : 0;
}

// Which of the machine's devices this process calls so.
GMLAKE_EXPORT int gmlake_device_physical(int device) {
  return exists(device) ? visible::physical(device) : -1;
}

GMLAKE_EXPORT void gmlake_device_on_read(void (*observer)(const void*, std::size_t)) {
  contents::observe(observer);
}

GMLAKE_EXPORT void gmlake_device_fresh(void* at, std::size_t size) {
  contents::fresh(address(at), size);
}

// The stream is one of this device, which need not be current any more.
GMLAKE_EXPORT void gmlake_device_touch(const void* at, std::size_t size, int device, void* stream, int write,
                                       int enqueued) {
  const timeline::OnDevice guard(device);
  timeline::touch(stream, address(at), size, write != 0, enqueued != 0);
  if (write != 0) contents::written(address(at), size);
}

GMLAKE_EXPORT int gmlake_device_hazards() {
  return hazards::found();
}

// 1 if the stream is capturing: the call became a node of the graph, and is made when the graph is launched.
GMLAKE_EXPORT int gmlake_device_capture_call(void* stream, std::uint64_t call) {
  timeline::CaptureStatus status{};
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  if (timeline::capture_info(stream, status, id, graph) != Status::success) return 0;
  if (status == timeline::CaptureStatus::none) return 0;
  static_cast<void>(enqueue(stream, 0, [call] {
    if (const auto told = replayed.load()) told(call);
  }));
  return 1;
}

GMLAKE_EXPORT void gmlake_device_on_replay(void (*observer)(std::uint64_t)) {
  replayed.store(observer);
}

// c10::Device as PyTorch passes it by value.
struct TorchDevice {
  signed char type, index;
};

// c10::reportMemoryUsageToProfiler(void*, long, size_t, size_t, c10::Device): exported by libc10.so and called by the
// CUDA allocators for every block handed out (positive size) and taken back (negative).
using Report = void (*)(void*, long, std::size_t, std::size_t, TorchDevice);
GMLAKE_EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void* at, long size, std::size_t allocated,
                                                                         std::size_t reserved, TorchDevice device) {
  constexpr signed char cuda = 1;
  if (size > 0 && device.type == cuda) contents::fresh(address(at), static_cast<std::size_t>(size));
  static const Report next = [] {
    // Python loads PyTorch's libraries for itself alone, so that only a handle finds what is in them.
    void* const c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    return c10 == nullptr
               ? nullptr
               : reinterpret_cast<Report>(dlsym(c10, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  }();
  if (next != nullptr) next(at, size, allocated, reserved, device);
}
