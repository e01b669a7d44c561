// cuFile: not emulated. Reading and writing return a length, of which the negative is an error; the rest are stubs.
#include "libraries/handles.h"

namespace {

constexpr int platform_not_supported = 5007;

long refuse(const char* symbol) {
  return -static_cast<long>(gmlake_device_unimplemented(symbol, platform_not_supported));
}

}  // namespace

GMLAKE_EXPORT long cuFileRead(void*, void*, std::size_t, long, long) {
  return refuse("cuFileRead");
}
GMLAKE_EXPORT long cuFileWrite(void*, const void*, std::size_t, long, long) {
  return refuse("cuFileWrite");
}
