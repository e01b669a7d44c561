// Threads that use the emulated device through CUDA's own functions, all at random: map and unmap, allocate and free,
// copy and fill with patterns that are read back, record, wait, capture and launch. Every call that must succeed does,
// what is read is what was written, and nothing is left. Meant to be built with sanitizers. Usage: device_stress
// [SECONDS]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "driver/abi.h"

using gmlake::driver::AccessDescription;
using gmlake::driver::AllocationProperties;
using gmlake::driver::Pointer;

extern "C" {
int cuMemAddressReserve(Pointer*, std::size_t, std::size_t, Pointer, unsigned long long);
int cuMemAddressFree(Pointer, std::size_t);
int cuMemCreate(unsigned long long*, std::size_t, const AllocationProperties*, unsigned long long);
int cuMemRelease(unsigned long long);
int cuMemMap(Pointer, std::size_t, std::size_t, unsigned long long, unsigned long long);
int cuMemSetAccess(Pointer, std::size_t, const AccessDescription*, std::size_t);
int cuMemUnmap(Pointer, std::size_t);
int cuMemcpyHtoD_v2(Pointer, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, Pointer, std::size_t);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventSynchronize(void*);
int cudaMallocAsync(void**, std::size_t, void*);
int cudaFreeAsync(void*, void*);
int cudaMemsetAsync(void*, int, std::size_t, void*);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cudaGraphLaunch(void*, void*);
int cudaGraphDestroy(void*);
int cudaGraphExecDestroy(void*);
int cudaMemPoolTrimTo(void*, std::size_t);
int cudaDeviceGetDefaultMemPool(void**, int);
std::size_t gmlake_device_used(int);
}

namespace {

constexpr std::size_t granule = std::size_t{2} << 20;
constexpr int relaxed = 2;

void must(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s failed with %d\n", what, result);
  std::exit(1);
}
#define MUST(call) must(call, #call)

void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}
#define EXPECT(condition) expect(condition, #condition)

// A few handles side by side, the first of them also at the end: what is written there is read at the beginning.
void stitch(std::mt19937_64& random) {
  const std::size_t count = 1 + random() % 4;
  Pointer at = 0;
  MUST(cuMemAddressReserve(&at, (count + 1) * granule, 0, 0, 0));
  const AllocationProperties properties{1, 0, {1, 0}, nullptr, {}};
  const AccessDescription access{{1, 0}, 3};
  std::vector<unsigned long long> handles(count);
  for (std::size_t i = 0; i < count; ++i) {
    MUST(cuMemCreate(&handles[i], granule, &properties, 0));
    MUST(cuMemMap(at + i * granule, granule, 0, handles[i], 0));
  }
  MUST(cuMemMap(at + count * granule, granule, 0, handles[0], 0));
  MUST(cuMemSetAccess(at, (count + 1) * granule, &access, 1));
  const std::uint64_t written = random();
  std::uint64_t read = 0;
  const std::size_t offset = random() % (granule - sizeof written);
  MUST(cuMemcpyHtoD_v2(at + count * granule + offset, &written, sizeof written));
  MUST(cuMemcpyDtoH_v2(&read, at + offset, sizeof read));
  EXPECT(read == written);
  MUST(cuMemUnmap(at, (count + 1) * granule));
  for (const auto handle : handles) MUST(cuMemRelease(handle));
  MUST(cuMemAddressFree(at, (count + 1) * granule));
}

// A block of the pool, filled by a graph on one stream and read by another stream after an event.
void capture(std::mt19937_64& random, void* first, void* second) {
  void *block = nullptr, *graph = nullptr, *executable = nullptr, *event = nullptr;
  const std::size_t size = 1 + random() % 5000;
  const auto value = static_cast<unsigned char>(random());
  MUST(cudaMallocAsync(&block, size, first));
  MUST(cudaStreamBeginCapture(first, relaxed));
  MUST(cudaMemsetAsync(block, value, size, first));
  MUST(cudaStreamEndCapture(first, &graph));
  MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  MUST(cudaGraphLaunch(executable, first));
  MUST(cuEventCreate(&event, 2));
  MUST(cuEventRecord(event, first));
  MUST(cuStreamWaitEvent(second, event, 0));
  MUST(cuEventSynchronize(event));
  unsigned char last = 0;
  MUST(cuMemcpyDtoH_v2(&last, reinterpret_cast<Pointer>(block) + size - 1, 1));
  EXPECT(last == value);
  MUST(cuEventDestroy_v2(event));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaFreeAsync(block, second));
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<std::uint64_t> rounds{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      void *first = nullptr, *second = nullptr;
      MUST(cuStreamCreate(&first, 1));
      MUST(cuStreamCreate(&second, 1));
      while (std::chrono::steady_clock::now() < end) {
        stitch(random);
        capture(random, first, second);
        ++rounds;
      }
      MUST(cuStreamDestroy_v2(first));
      MUST(cuStreamDestroy_v2(second));
    });
  }
  for (std::thread& thread : threads) thread.join();
  void* pool = nullptr;
  MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
  MUST(cudaMemPoolTrimTo(pool, 0));
  EXPECT(gmlake_device_used(0) == 0);
  std::printf("device: %llu rounds on 8 threads\n", static_cast<unsigned long long>(rounds.load()));
}
