// cuBLASLt: descriptors that nobody reads back, and a choice of algorithms that always offers one, without a workspace.
// The multiplication itself does nothing.
#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, invalid_value = 7 };

struct Algorithm {
  std::uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t
struct Choice {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

int choose(Choice* choice) {
  if (choice == nullptr) return invalid_value;
  *choice = Choice{};
  choice->waves = 1;
  return success;
}

int accept(void* descriptor, const void* value) {
  return descriptor && value ? success : invalid_value;
}

}  // namespace

GMLAKE_EXPORT int cublasLtCreate(void** handle) {
  return make<Opaque>(handle, invalid_value);
}
GMLAKE_EXPORT int cublasLtDestroy(void* handle) {
  return destroy<Opaque>(handle);
}
GMLAKE_EXPORT std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(cuda_version()) * 10;
}
GMLAKE_EXPORT std::size_t cublasLtGetCudartVersion() {
  return static_cast<std::size_t>(cuda_version());
}
GMLAKE_EXPORT int cublasLtGetProperty(int which, int* value) {
  return property(which, cuda_version() * 10, value, invalid_value);
}

GMLAKE_EXPORT int cublasLtMatmulDescCreate(void** made, int, int) {
  return make<Opaque>(made, invalid_value);
}
GMLAKE_EXPORT int cublasLtMatmulDescDestroy(void* descriptor) {
  return destroy<Opaque>(descriptor);
}
GMLAKE_EXPORT int cublasLtMatmulDescSetAttribute(void* descriptor, int, const void* value, std::size_t) {
  return accept(descriptor, value);
}
GMLAKE_EXPORT int cublasLtMatrixLayoutCreate(void** made, int, std::uint64_t, std::uint64_t, std::int64_t) {
  return make<Opaque>(made, invalid_value);
}
GMLAKE_EXPORT int cublasLtMatrixLayoutDestroy(void* descriptor) {
  return destroy<Opaque>(descriptor);
}
GMLAKE_EXPORT int cublasLtMatrixLayoutSetAttribute(void* descriptor, int, const void* value, std::size_t) {
  return accept(descriptor, value);
}
GMLAKE_EXPORT int cublasLtMatmulPreferenceCreate(void** made) {
  return make<Opaque>(made, invalid_value);
}
GMLAKE_EXPORT int cublasLtMatmulPreferenceDestroy(void* descriptor) {
  return destroy<Opaque>(descriptor);
}
GMLAKE_EXPORT int cublasLtMatmulPreferenceSetAttribute(void* descriptor, int, const void* value, std::size_t) {
  return accept(descriptor, value);
}

GMLAKE_EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted,
                                                 Choice* choices, int* count) {
  if (wanted < 1 || count == nullptr) return invalid_value;
  *count = 1;
  return choose(choices);
}
GMLAKE_EXPORT int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const Algorithm*, Choice* choice) {
  return choose(choice);
}
GMLAKE_EXPORT int cublasLtMatmulAlgoInit(void*, int, int, int, int, int, int, int, Algorithm* algorithm) {
  if (algorithm == nullptr) return invalid_value;
  *algorithm = Algorithm{};
  return success;
}
GMLAKE_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int, const void* value, std::size_t) {
  return accept(algorithm, value);
}
GMLAKE_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int, void* value, std::size_t size,
                                                       std::size_t* written) {
  if (algorithm == nullptr) return invalid_value;
  if (value != nullptr) std::memset(value, 0, size);
  if (written != nullptr) *written = size;
  return success;
}
