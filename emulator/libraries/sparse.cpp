// cuSPARSE: handles, the sizes of sparse matrices, and workspaces, which are empty. The products do nothing; the number
// of elements of a sparse result is therefore zero.
#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, invalid_value = 3 };

struct SparseMatrix {
  std::int64_t rows = 0, columns = 0, elements = 0;
};

int make_matrix(void** made, const SparseMatrix& matrix) {
  if (made == nullptr || matrix.rows < 0 || matrix.columns < 0 || matrix.elements < 0) return invalid_value;
  *made = new SparseMatrix(matrix);
  return success;
}

}  // namespace

GMLAKE_EXPORT const char* cusparseGetErrorString(int status) {
  return status == success ? "success" : "the emulated device does not support this cuSPARSE function";
}
GMLAKE_EXPORT const char* cusparseGetErrorName(int status) {
  return status == success ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS of the emulated device";
}

OPAQUE(cusparseCreate, cusparseDestroy)
OPAQUE(cusparseCreateMatDescr, cusparseDestroyMatDescr)
OPAQUE(cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info)
OPAQUE(cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info)
OPAQUE(cusparseSpGEMM_createDescr, cusparseSpGEMM_destroyDescr)
OPAQUE(cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)
OPAQUE(cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)

GMLAKE_EXPORT int cusparseCreateCoo(void** made, std::int64_t rows, std::int64_t columns, std::int64_t elements, void*,
                                    void*, void*, int, int, int) {
  return make_matrix(made, {rows, columns, elements});
}
GMLAKE_EXPORT int cusparseCreateCsr(void** made, std::int64_t rows, std::int64_t columns, std::int64_t elements, void*,
                                    void*, void*, int, int, int, int) {
  return make_matrix(made, {rows, columns, elements});
}
GMLAKE_EXPORT int cusparseDestroySpMat(void* matrix) {
  return destroy<SparseMatrix>(matrix);
}
GMLAKE_EXPORT int cusparseSpMatGetSize(const SparseMatrix* matrix, std::int64_t* rows, std::int64_t* columns,
                                       std::int64_t* elements) {
  if (matrix == nullptr) return invalid_value;
  *rows = matrix->rows;
  *columns = matrix->columns;
  *elements = matrix->elements;
  return success;
}
GMLAKE_EXPORT int cusparseCreateDnMat(void** made, std::int64_t, std::int64_t, std::int64_t, void*, int, int) {
  return make<Opaque>(made, invalid_value);
}
GMLAKE_EXPORT int cusparseDestroyDnMat(void* matrix) {
  return destroy<Opaque>(matrix);
}
GMLAKE_EXPORT int cusparseCreateDnVec(void** made, std::int64_t, void*, int) {
  return make<Opaque>(made, invalid_value);
}
GMLAKE_EXPORT int cusparseDestroyDnVec(void* vector) {
  return destroy<Opaque>(vector);
}

GMLAKE_EXPORT int cusparseSpMM_bufferSize(void*, int, int, const void*, void*, void*, const void*, void*, int, int,
                                          std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSpMV_bufferSize(void*, int, const void*, void*, void*, const void*, void*, int, int,
                                          std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSDDMM_bufferSize(void*, int, int, const void*, void*, void*, const void*, void*, int, int,
                                           std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSpSM_bufferSize(void*, int, int, const void*, void*, void*, void*, int, int, void*,
                                          std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSpSV_bufferSize(void*, int, const void*, void*, void*, void*, int, int, void*,
                                          std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSpGEMM_workEstimation(void*, int, int, const void*, void*, void*, const void*, void*, int,
                                                int, void*, std::size_t* size, void*) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseSpGEMM_compute(void*, int, int, const void*, void*, void*, const void*, void*, int, int,
                                         void*, std::size_t* size, void*) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseXcoosort_bufferSizeExt(void*, int, int, int, const int*, const int*, std::size_t* size) {
  return zero(size);
}
GMLAKE_EXPORT int cusparseXcsrsort_bufferSizeExt(void*, int, int, int, const int*, const int*, std::size_t* size) {
  return zero(size);
}
// The caller sets the pointer mode to host before it asks.
GMLAKE_EXPORT int cusparseXcsrgeam2Nnz(void*, int, int, void*, int, const int*, const int*, void*, int, const int*,
                                       const int*, void*, int*, int* elements, void*) {
  return zero(elements);
}
GMLAKE_EXPORT int cusparseXbsrsm2_zeroPivot(void*, void*, int* position) {
  *position = -1;
  return success;
}
GMLAKE_EXPORT int cusparseXbsrsv2_zeroPivot(void*, void*, int* position) {
  *position = -1;
  return success;
}

#define FOR_EACH_TYPE(define) define(S) define(D) define(C) define(Z)
#define WORKSPACES(type)                                                                                               \
  GMLAKE_EXPORT int cusparse##type##bsrsm2_bufferSize(void*, int, int, int, int, int, int, void*, void*, const int*,   \
                                                      const int*, int, void*, int* size) {                             \
    return zero(size);                                                                                                 \
  }                                                                                                                    \
  GMLAKE_EXPORT int cusparse##type##bsrsv2_bufferSize(void*, int, int, int, int, void*, void*, const int*, const int*, \
                                                      int, void*, int* size) {                                         \
    return zero(size);                                                                                                 \
  }                                                                                                                    \
  GMLAKE_EXPORT int cusparse##type##csrgeam2_bufferSizeExt(                                                            \
      void*, int, int, const void*, void*, int, const void*, const int*, const int*, const void*, void*, int,          \
      const void*, const int*, const int*, void*, const void*, const int*, const int*, std::size_t* size) {            \
    return zero(size);                                                                                                 \
  }
FOR_EACH_TYPE(WORKSPACES)
