// cuFFT: plans are numbers, and need no workspace. The transforms do nothing.
#include <atomic>

#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Result : int { success = 0, invalid_value = 4 };

}  // namespace

GMLAKE_EXPORT int cufftCreate(int* plan) {
  static std::atomic<int> next{1};
  if (plan == nullptr) return invalid_value;
  *plan = next++;
  return success;
}
GMLAKE_EXPORT int cufftXtMakePlanMany(int, int, long long*, long long*, long long, long long, int, long long*,
                                      long long, long long, int, long long, std::size_t* size, int) {
  return zero(size);
}
GMLAKE_EXPORT int cufftGetSize(int, std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cufftGetVersion(int* version) {
  *version = cuda_version() / 1000 * 1000;
  return success;
}
