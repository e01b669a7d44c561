// cuBLAS: handles and their state, copies between host and device, and results that the host reads. The routines
// themselves do nothing: a result in device memory stays as it is, one in host memory becomes zero.
#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, not_initialized = 1, invalid_value = 7, mapping_error = 11 };
enum PointerMode : int { on_host = 0, on_device = 1 };

struct Handle {
  void* stream = nullptr;
  int pointer_mode = on_host;
  int math_mode = 0;
  int atomics_mode = 0;
  int multiprocessors = 0;
};

template <class Value>
int set(Handle* handle, Value Handle::* member, Value value) {
  if (handle == nullptr) return not_initialized;
  handle->*member = value;
  return success;
}

template <class Value>
int get(const Handle* handle, Value Handle::* member, Value* value) {
  if (handle == nullptr) return not_initialized;
  if (value == nullptr) return invalid_value;
  *value = handle->*member;
  return success;
}

int answer(const Handle* handle, void* result, std::size_t size) {
  if (handle == nullptr) return not_initialized;
  if (result == nullptr) return invalid_value;
  if (handle->pointer_mode == on_host) std::memset(result, 0, size);
  return success;
}

// Of the data types that a dot product may have as its result.
std::size_t size_of(int data_type) {
  switch (data_type) {
    case 2:   // half
    case 14:  // bfloat16
      return 2;
    case 1:  // double
    case 4:  // complex
      return 8;
    case 5:  // double complex
      return 16;
    default:
      return 4;
  }
}

struct Matrix {
  std::size_t element, rows, columns, from_step, to_step;  // steps in elements
};

int copy(const Matrix& matrix, const void* from, void* to, void* stream, bool wait) {
  const std::size_t bytes = matrix.rows * matrix.element;
  for (std::size_t column = 0; column < matrix.columns; ++column) {
    const char* source = static_cast<const char*>(from) + column * matrix.from_step * matrix.element;
    char* target = static_cast<char*>(to) + column * matrix.to_step * matrix.element;
    const auto status = gmlake::device::copy(target, source, bytes, stream, wait);
    if (status != gmlake::device::Status::success) return mapping_error;
  }
  return success;
}

int copy_matrix(int rows, int columns, int element, const void* from, int from_step, void* to, int to_step,
                void* stream, bool wait) {
  if (rows < 0 || columns < 0 || element <= 0 || from_step <= 0 || to_step <= 0) return invalid_value;
  const auto wide = [](int value) { return static_cast<std::size_t>(value); };
  return copy({wide(element), wide(rows), wide(columns), wide(from_step), wide(to_step)}, from, to, stream, wait);
}

// A vector with steps is a matrix with one row.
int copy_vector(int count, int element, const void* from, int from_step, void* to, int to_step, void* stream,
                bool wait) {
  if (from_step == 1 && to_step == 1) return copy_matrix(count, 1, element, from, 1, to, 1, stream, wait);
  return copy_matrix(1, count, element, from, from_step, to, to_step, stream, wait);
}

}  // namespace

GMLAKE_EXPORT int cublasCreate_v2(void** handle) {
  return make<Handle>(handle, invalid_value);
}
GMLAKE_EXPORT int cublasDestroy_v2(void* handle) {
  return handle ? destroy<Handle>(handle) : not_initialized;
}

GMLAKE_EXPORT int cublasSetStream_v2(Handle* handle, void* stream) {
  return set(handle, &Handle::stream, stream);
}
GMLAKE_EXPORT int cublasGetStream_v2(Handle* handle, void** stream) {
  return get(handle, &Handle::stream, stream);
}
GMLAKE_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  return set(handle, &Handle::pointer_mode, mode);
}
GMLAKE_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return get(handle, &Handle::pointer_mode, mode);
}
GMLAKE_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  return set(handle, &Handle::math_mode, mode);
}
GMLAKE_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  return get(handle, &Handle::math_mode, mode);
}
GMLAKE_EXPORT int cublasSetAtomicsMode(Handle* handle, int mode) {
  return set(handle, &Handle::atomics_mode, mode);
}
GMLAKE_EXPORT int cublasGetAtomicsMode(Handle* handle, int* mode) {
  return get(handle, &Handle::atomics_mode, mode);
}
GMLAKE_EXPORT int cublasSetSmCountTarget(Handle* handle, int count) {
  return set(handle, &Handle::multiprocessors, count);
}
GMLAKE_EXPORT int cublasGetSmCountTarget(Handle* handle, int* count) {
  return get(handle, &Handle::multiprocessors, count);
}
GMLAKE_EXPORT int cublasSetWorkspace_v2(Handle* handle, void*, std::size_t) {
  return handle ? success : not_initialized;
}

GMLAKE_EXPORT std::size_t cublasGetCudartVersion() {
  return static_cast<std::size_t>(cuda_version());
}
GMLAKE_EXPORT int cublasGetVersion_v2(Handle*, int* version) {
  *version = cuda_version() * 10;
  return success;
}
GMLAKE_EXPORT int cublasGetProperty(int which, int* value) {
  return property(which, cuda_version() * 10, value, invalid_value);
}
GMLAKE_EXPORT const char* cublasGetStatusName(int status) {
  return status == success ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS of the emulated device";
}
GMLAKE_EXPORT const char* cublasGetStatusString(int status) {
  return status == success ? "success" : "the emulated device does not support this cuBLAS function";
}

GMLAKE_EXPORT int cublasSetVectorAsync(int count, int element, const void* from, int from_step, void* to, int to_step,
                                       void* stream) {
  return copy_vector(count, element, from, from_step, to, to_step, stream, false);
}
GMLAKE_EXPORT int cublasGetVectorAsync(int count, int element, const void* from, int from_step, void* to, int to_step,
                                       void* stream) {
  return copy_vector(count, element, from, from_step, to, to_step, stream, false);
}
GMLAKE_EXPORT int cublasSetMatrixAsync(int rows, int columns, int element, const void* from, int from_step, void* to,
                                       int to_step, void* stream) {
  return copy_matrix(rows, columns, element, from, from_step, to, to_step, stream, false);
}
GMLAKE_EXPORT int cublasGetMatrixAsync(int rows, int columns, int element, const void* from, int from_step, void* to,
                                       int to_step, void* stream) {
  return copy_matrix(rows, columns, element, from, from_step, to, to_step, stream, false);
}

#define RESULT_OF_ONE(name, size)                                                     \
  GMLAKE_EXPORT int name(const Handle* handle, int, const void*, int, void* result) { \
    return answer(handle, result, size);                                              \
  }
#define RESULT_OF_TWO(name, size)                                                                       \
  GMLAKE_EXPORT int name(const Handle* handle, int, const void*, int, const void*, int, void* result) { \
    return answer(handle, result, size);                                                                \
  }

RESULT_OF_TWO(cublasSdot_v2, 4)
RESULT_OF_TWO(cublasDdot_v2, 8)
RESULT_OF_TWO(cublasCdotu_v2, 8)
RESULT_OF_TWO(cublasCdotc_v2, 8)
RESULT_OF_TWO(cublasZdotu_v2, 16)
RESULT_OF_TWO(cublasZdotc_v2, 16)
RESULT_OF_ONE(cublasSnrm2_v2, 4)
RESULT_OF_ONE(cublasDnrm2_v2, 8)
RESULT_OF_ONE(cublasScnrm2_v2, 4)
RESULT_OF_ONE(cublasDznrm2_v2, 8)
RESULT_OF_ONE(cublasSasum_v2, 4)
RESULT_OF_ONE(cublasDasum_v2, 8)
RESULT_OF_ONE(cublasScasum_v2, 4)
RESULT_OF_ONE(cublasDzasum_v2, 8)
RESULT_OF_ONE(cublasIsamax_v2, 4)
RESULT_OF_ONE(cublasIdamax_v2, 4)
RESULT_OF_ONE(cublasIcamax_v2, 4)
RESULT_OF_ONE(cublasIzamax_v2, 4)
RESULT_OF_ONE(cublasIsamin_v2, 4)
RESULT_OF_ONE(cublasIdamin_v2, 4)
RESULT_OF_ONE(cublasIcamin_v2, 4)
RESULT_OF_ONE(cublasIzamin_v2, 4)

GMLAKE_EXPORT int cublasDotEx(const Handle* handle, int, const void*, int, int, const void*, int, int, void* result,
                              int result_type, int) {
  return answer(handle, result, size_of(result_type));
}

// Whether the arguments were good is told in host memory, whatever the pointer mode.
#define BATCHED(type)                                                                                               \
  GMLAKE_EXPORT int cublas##type##geqrfBatched(Handle*, int, int, void*, int, void*, int* info, int) {              \
    return zero(info);                                                                                              \
  }                                                                                                                 \
  GMLAKE_EXPORT int cublas##type##getrsBatched(Handle*, int, int, int, const void*, int, const int*, void*, int,    \
                                               int* info, int) {                                                    \
    return zero(info);                                                                                              \
  }                                                                                                                 \
  GMLAKE_EXPORT int cublas##type##gelsBatched(Handle*, int, int, int, int, void*, int, void*, int, int* info, int*, \
                                              int) {                                                                \
    return zero(info);                                                                                              \
  }
BATCHED(S)
BATCHED(D)
BATCHED(C)
BATCHED(Z)
