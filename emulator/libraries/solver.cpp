// cuSOLVER: handles, and workspaces, which are empty. The solvers do nothing; their reports of success or failure lie
// in device memory and read as zero, success.
#include "libraries/handles.h"

using namespace gmlake::libraries;

namespace {

enum Status : int { success = 0, invalid_value = 3 };

int no_workspaces(std::size_t* on_device, std::size_t* on_host) {
  zero(on_device);
  return zero(on_host);
}

}  // namespace

OPAQUE(cusolverDnCreate, cusolverDnDestroy)
OPAQUE(cusolverDnCreateParams, cusolverDnDestroyParams)
OPAQUE(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
OPAQUE(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

// Functions with these arguments: P pointer, I int, L 64 bits wide.
#define SIZE(name, ...)                              \
  GMLAKE_EXPORT int name##_bufferSize(__VA_ARGS__) { \
    return zero(size);                               \
  }
#define BOTH_SIZES(name, ...)                        \
  GMLAKE_EXPORT int name##_bufferSize(__VA_ARGS__) { \
    return no_workspaces(size, host_size);           \
  }

using P = const void*;
using I = int;
using L = std::int64_t;

#define REAL_AND_COMPLEX(type)                                                            \
  SIZE(cusolverDn##type##geqrf, P, I, I, P, I, int* size)                                 \
  SIZE(cusolverDn##type##getrf, P, I, I, P, I, int* size)                                 \
  SIZE(cusolverDn##type##potrf, P, I, I, P, I, int* size)                                 \
  SIZE(cusolverDn##type##sytrf, P, I, P, I, int* size)                                    \
  SIZE(cusolverDn##type##gesvd, P, I, I, int* size)                                       \
  SIZE(cusolverDn##type##gesvdj, P, I, I, I, I, P, I, P, P, I, P, I, int* size, P)        \
  SIZE(cusolverDn##type##gesvdjBatched, P, I, I, I, P, I, P, P, I, P, I, int* size, P, I) \
  SIZE(cusolverDn##type##gesvdaStridedBatched, P, I, I, I, I, P, I, L, P, L, P, I, L, P, I, L, int* size, I)
#define QR(type, generate, multiply)                               \
  SIZE(cusolverDn##type##generate, P, I, I, I, P, I, P, int* size) \
  SIZE(cusolverDn##type##multiply, P, I, I, I, I, I, P, I, P, P, I, int* size)
#define EIGENVALUES(type, kind)                                        \
  SIZE(cusolverDn##type##kind##evd, P, I, I, I, P, I, P, int* size)    \
  SIZE(cusolverDn##type##kind##evj, P, I, I, I, P, I, P, int* size, P) \
  SIZE(cusolverDn##type##kind##evjBatched, P, I, I, I, P, I, P, int* size, P, I)

REAL_AND_COMPLEX(S)
REAL_AND_COMPLEX(D)
REAL_AND_COMPLEX(C)
REAL_AND_COMPLEX(Z)
QR(S, orgqr, ormqr)
QR(D, orgqr, ormqr)
QR(C, ungqr, unmqr)
QR(Z, ungqr, unmqr)
EIGENVALUES(S, sy)
EIGENVALUES(D, sy)
EIGENVALUES(C, he)
EIGENVALUES(Z, he)

#define SIZES std::size_t *size, std::size_t *host_size
BOTH_SIZES(cusolverDnXgeqrf, P, P, L, L, I, P, L, I, P, I, SIZES)
BOTH_SIZES(cusolverDnXpotrf, P, P, I, L, I, P, L, I, SIZES)
BOTH_SIZES(cusolverDnXsyevd, P, P, I, I, L, I, P, L, I, P, I, SIZES)
BOTH_SIZES(cusolverDnXsyevBatched, P, P, I, I, L, I, P, L, I, P, I, SIZES, L)
BOTH_SIZES(cusolverDnXgeev, P, P, I, I, L, I, P, L, I, P, I, P, L, I, P, L, I, SIZES)
BOTH_SIZES(cusolverDnXsytrs, P, I, L, L, I, P, L, P, I, P, L, SIZES)
