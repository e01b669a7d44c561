// cuDNN, the part of functions with fixed arguments: handles, descriptors, and the choice of an algorithm. Convolutions
// and normalizations do nothing and need no workspace: the real library's workspaces are not in the memory figures.
#include "libraries/dnn.h"

#include <algorithm>
#include <cstdio>

using namespace gmlake::libraries;
using namespace gmlake::libraries::dnn;

namespace {

// The release that PyTorch 2.14.1 is built for. PyTorch refuses one that is older than its own.
constexpr int version = 92400;
// A generator's state is not kept; PyTorch wants somewhere to put one.
constexpr std::size_t dropout_state = 1 << 20;

// cudnnConvolutionFwdAlgoPerf_t and its two siblings
struct Choice {
  int algorithm;
  int status;
  float milliseconds;
  std::size_t workspace;
  int deterministic;
  int math;
  int reserved[3];
};

int choose(int wanted, int* count, Choice* choices) {
  if (wanted < 1 || count == nullptr || choices == nullptr) return bad_parameter;
  *choices = Choice{};
  choices->algorithm = 1;
  choices->deterministic = 1;
  *count = 1;
  return success;
}

void copy(const std::vector<int>& from, int wanted, int* to) {
  std::copy_n(from.begin(), std::min<std::size_t>(from.size(), static_cast<std::size_t>(std::max(wanted, 0))), to);
}

using P = const void*;
using I = int;

}  // namespace

GMLAKE_EXPORT std::size_t cudnnGetVersion() {
  return version;
}
GMLAKE_EXPORT std::size_t cudnnGetCudartVersion() {
  return static_cast<std::size_t>(cuda_version());
}
GMLAKE_EXPORT int cudnnGetProperty(int which, int* value) {
  return property(which, version, value, bad_parameter);
}
GMLAKE_EXPORT const char* cudnnGetErrorString(int status) {
  return status == success ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED by the emulated device";
}
GMLAKE_EXPORT void cudnnGetLastErrorString(char* text, std::size_t size) {
  std::snprintf(text, size, "see what the emulated device says it does not support");
}

GMLAKE_EXPORT int cudnnCreate(void** handle) {
  return make<Handle>(handle, bad_parameter);
}
GMLAKE_EXPORT int cudnnDestroy(void* handle) {
  return destroy<Handle>(handle);
}
GMLAKE_EXPORT int cudnnSetStream(Handle* handle, void* stream) {
  if (handle == nullptr) return bad_parameter;
  handle->stream = stream;
  return success;
}
GMLAKE_EXPORT int cudnnGetStream(Handle* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return bad_parameter;
  *stream = handle->stream;
  return success;
}

#define DESCRIPTOR(name, type)                                         \
  GMLAKE_EXPORT int cudnnCreate##name##Descriptor(void** made) {       \
    return make<type>(made, bad_parameter);                            \
  }                                                                    \
  GMLAKE_EXPORT int cudnnDestroy##name##Descriptor(void* descriptor) { \
    return destroy<type>(descriptor);                                  \
  }

DESCRIPTOR(Tensor, Tensor)
DESCRIPTOR(Filter, Tensor)
DESCRIPTOR(Activation, Opaque)
DESCRIPTOR(CTCLoss, Opaque)
DESCRIPTOR(Convolution, Opaque)
DESCRIPTOR(Dropout, Opaque)
DESCRIPTOR(Pooling, Opaque)
DESCRIPTOR(SpatialTransformer, Opaque)

GMLAKE_EXPORT int cudnnSetTensorNdDescriptor(Tensor* tensor, int type, int rank, const int* sizes, const int* strides) {
  if (tensor == nullptr || rank < 0) return bad_parameter;
  *tensor = {type, 0, {sizes, sizes + rank}, {strides, strides + rank}};
  return success;
}
GMLAKE_EXPORT int cudnnGetTensorNdDescriptor(const Tensor* tensor, int wanted, int* type, int* rank, int* sizes,
                                             int* strides) {
  if (tensor == nullptr) return bad_parameter;
  *type = tensor->data_type;
  *rank = static_cast<int>(tensor->sizes.size());
  copy(tensor->sizes, wanted, sizes);
  copy(tensor->strides, wanted, strides);
  return success;
}
GMLAKE_EXPORT int cudnnSetFilterNdDescriptor(Tensor* filter, int type, int format, int rank, const int* sizes) {
  if (filter == nullptr || rank < 0) return bad_parameter;
  *filter = {type, format, {sizes, sizes + rank}, {}};
  return success;
}
GMLAKE_EXPORT int cudnnGetFilterNdDescriptor(const Tensor* filter, int wanted, int* type, int* format, int* rank,
                                             int* sizes) {
  if (filter == nullptr) return bad_parameter;
  *type = filter->data_type;
  *format = filter->format;
  *rank = static_cast<int>(filter->sizes.size());
  copy(filter->sizes, wanted, sizes);
  return success;
}

GMLAKE_EXPORT int cudnnDropoutGetStatesSize(P, std::size_t* size) {
  *size = dropout_state;
  return success;
}

#define SIZE(name, ...)                                           \
  GMLAKE_EXPORT int cudnn##name(__VA_ARGS__, std::size_t* size) { \
    return zero(size);                                            \
  }
SIZE(GetBatchNormalizationForwardTrainingExWorkspaceSize, P, I, I, P, P, P, P, P)
SIZE(GetBatchNormalizationBackwardExWorkspaceSize, P, I, I, P, P, P, P, P, P, P)
SIZE(GetBatchNormalizationTrainingExReserveSpaceSize, P, I, I, P, P)
SIZE(GetConvolutionForwardWorkspaceSize, P, P, P, P, P, I)
SIZE(GetConvolutionBackwardDataWorkspaceSize, P, P, P, P, P, I)
SIZE(GetConvolutionBackwardFilterWorkspaceSize, P, P, P, P, P, I)
SIZE(GetCTCLossWorkspaceSize, P, P, P, P, P, P, I, P)
SIZE(GetCTCLossWorkspaceSize_v8, P, I, P, P, P)

#define CHOICE(direction)                                                                                        \
  GMLAKE_EXPORT int cudnnGetConvolution##direction##Algorithm_v7(P, P, P, P, P, int wanted, int* count,          \
                                                                 Choice* choices) {                              \
    return choose(wanted, count, choices);                                                                       \
  }                                                                                                              \
  GMLAKE_EXPORT int cudnnFindConvolution##direction##AlgorithmEx(P, P, P, P, P, P, P, P, int wanted, int* count, \
                                                                 Choice* choices, void*, std::size_t) {          \
    return choose(wanted, count, choices);                                                                       \
  }
CHOICE(Forward)
CHOICE(BackwardData)
CHOICE(BackwardFilter)
