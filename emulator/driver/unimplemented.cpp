// Driver functions that PyTorch looks up by name and that are not emulated: they say so when they are called.
#include "driver/abi.h"

#define UNIMPLEMENTED(name)                         \
  GMLAKE_EXPORT int name() {                        \
    return gmlake_device_unimplemented(#name, 801); \
  }

UNIMPLEMENTED(cuCtxFromGreenCtx)
UNIMPLEMENTED(cuDevResourceGenerateDesc)
UNIMPLEMENTED(cuDevSmResourceSplitByCount)
UNIMPLEMENTED(cuDeviceGetDevResource)
UNIMPLEMENTED(cuGetExportTable)
UNIMPLEMENTED(cuGreenCtxCreate)
UNIMPLEMENTED(cuGreenCtxDestroy)
UNIMPLEMENTED(cuGreenCtxStreamCreate)
UNIMPLEMENTED(cuLinkAddData_v2)
UNIMPLEMENTED(cuLinkComplete)
UNIMPLEMENTED(cuLinkCreate_v2)
UNIMPLEMENTED(cuMulticastAddDevice)
UNIMPLEMENTED(cuMulticastBindMem)
UNIMPLEMENTED(cuMulticastCreate)
UNIMPLEMENTED(cuMulticastGetGranularity)
UNIMPLEMENTED(cuMulticastUnbind)
UNIMPLEMENTED(cuStreamWriteValue32)
