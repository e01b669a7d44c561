// Which release the libraries claim to be of.
#include "libraries/handles.h"

extern "C" int cudaRuntimeGetVersion(int* version);

int gmlake::libraries::cuda_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == 0 && version != 0 ? version : 13000;
}
