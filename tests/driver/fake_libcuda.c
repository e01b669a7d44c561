/* A libcuda.so.1 that is wrong in one way, chosen at build time: VERSION, INIT (result of cuInit), COUNT, VMM. */
#define SUCCEEDS(name) \
  int name(void) {     \
    return 0;          \
  }

int cuInit(unsigned flags) {
  return INIT;
}
int cuDriverGetVersion(int* version) {
  return *version = VERSION, 0;
}
int cuGetErrorString(int result, const char** text) {
  return *text = "a made-up reason", 0;
}
int cuDeviceGetCount(int* count) {
  return *count = COUNT, INIT == 100 ? 3 : 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return *value = VMM, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return 46;
}
int cuMemGetAllocationGranularity(unsigned long* granularity) {
  return *granularity = 2 << 20, 0;
}

SUCCEEDS(cuDeviceCanAccessPeer)
SUCCEEDS(cuDevicePrimaryCtxRelease_v2)
SUCCEEDS(cuCtxGetCurrent)
SUCCEEDS(cuCtxPushCurrent_v2)
SUCCEEDS(cuCtxPopCurrent_v2)
SUCCEEDS(cuMemAddressReserve)
SUCCEEDS(cuMemAddressFree)
SUCCEEDS(cuMemCreate)
SUCCEEDS(cuMemRelease)
SUCCEEDS(cuMemMap)
SUCCEEDS(cuMemUnmap)
SUCCEEDS(cuMemSetAccess)
SUCCEEDS(cuMemExportToShareableHandle)
SUCCEEDS(cuMemImportFromShareableHandle)
SUCCEEDS(cuCtxSynchronize)
SUCCEEDS(cuMemAlloc_v2)
SUCCEEDS(cuMemFree_v2)
SUCCEEDS(cuMemGetInfo_v2)
SUCCEEDS(cuEventCreate)
SUCCEEDS(cuEventDestroy_v2)
SUCCEEDS(cuEventRecord)
SUCCEEDS(cuEventQuery)
SUCCEEDS(cuEventSynchronize)
SUCCEEDS(cuStreamWaitEvent)
SUCCEEDS(cuStreamSynchronize)
SUCCEEDS(cuStreamIsCapturing)
#ifndef WITHOUT_CAPTURE_MODE
SUCCEEDS(cuThreadExchangeStreamCaptureMode)
#endif
