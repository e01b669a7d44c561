"""The libraries that stand-ins are made for, and how each says that something is not supported.

What a function does is decided in this order:
- libgmlake_device.so defines it: the stand-in leaves it out, and the linker finds it there;
- its name is in `returns`: it reports itself and returns that value, because its result is not a status;
- its name matches `silent`: it only computes, or sets what nobody reads back here, and may do nothing;
- else it reports itself and returns the library's own "not supported", or the nearest code that the library has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Library:
    """One library, whatever its version: lib<stem>.so.<version>."""

    stem: str
    prefix: str  # of its functions, for imports that do not say where they come from; "" if all do
    not_supported: int
    silent: str = ""
    returns: Mapping[str, int] = field(default_factory=dict)

    def code(self, symbol: str) -> int | None:
        """What the stub of a function returns; None if it does nothing."""
        if symbol in self.returns:
            return self.returns[symbol]
        return None if self.silent and re.fullmatch(self.silent, symbol) else self.not_supported


BLAS_ROUTINE = r"cublas(?!Set|Get|Create|Destroy|[SDCZ]rotm?g)[SDCZI][a-z]\w*"
BLAS_MIXED = r"cublas(Gemm|Axpy|Scal|Rot|Swap|Copy|Gemv)\w*"
SPARSE_GENERIC = r"SpMM|SpMV|SDDMM|SDDMM_preprocess|Sp(SV|SM)_(analysis|solve)|SpGEMM_copy"
SPARSE_BLOCKS = r"[SDCZ](bsrmm|bsrmv|bsrs[mv]2_(analysis|solve)|csrgeam2)"
SPARSE_ORDER = r"Xcoo2csr|Xcoosort(ByRow|ByColumn)|Xcsrsort|CreateIdentityPermutation"
SPARSE_SETTERS = r"Set\w+|SpMatSetAttribute|Csr\w+|DnMatSet\w+"
# Not those that hand back a size or a residual.
SOLVER_ROUTINE = r"cusolverDn(?!\w*(_bufferSize|Get))([SDCZX][a-z]\w+|SetStream)"
# Setters of descriptors that nobody reads back, and what computes.
NETWORK = (
    r"cudnn(Convolution\w+|BatchNormalization\w+|RNN(Forward|Backward\w+)|Pooling\w+|SpatialTf\w+|CTCLoss\w*"
    r"|Set(Activation|CTCLoss|Convolution|Pooling|SpatialTransformer|RNNData|Dropout)\w+|RestoreDropoutDescriptor)"
)
PROFILER = r"cupti(Activity(Enable|Disable|Flush|Register|Push|SetAttribute)\w*|Enable\w+|Finalize|Unsubscribe)"

LIBRARIES = (
    Library("cuda", "cu(?!File)[A-Z]", 801),  # CUDA_ERROR_NOT_SUPPORTED
    Library("cudart", "(__)?cuda[A-Z]", 801),  # cudaErrorNotSupported
    Library("nvidia-ml", "nvml", 3),  # NVML_ERROR_NOT_SUPPORTED
    Library("cublas", "cublas(?!Lt)", 15, f"{BLAS_ROUTINE}|{BLAS_MIXED}"),  # CUBLAS_STATUS_NOT_SUPPORTED
    Library("cublasLt", "cublasLt", 15, "cublasLt(Matmul|MatrixTransform)"),
    Library("cudnn", "cudnn", 3000, NETWORK),  # CUDNN_STATUS_NOT_SUPPORTED, since version 9
    Library(
        "cusparse",
        "cusparse(?!Lt)",
        10,  # CUSPARSE_STATUS_NOT_SUPPORTED
        f"cusparse({SPARSE_GENERIC}|{SPARSE_BLOCKS}|{SPARSE_ORDER}|{SPARSE_SETTERS})",
    ),
    Library("cusparseLt", "cusparseLt", 10),
    Library("cusolver", "cusolver", 9, SOLVER_ROUTINE),  # CUSOLVER_STATUS_NOT_SUPPORTED
    Library("cufft", "cufft", 16, "cufft(XtExec|Exec[A-Z]2[A-Z]|Set\\w+|Destroy)"),  # CUFFT_NOT_SUPPORTED
    Library("curand", "curand", 999, "curand(Generate|Set)\\w+"),  # CURAND_STATUS_INTERNAL_ERROR
    Library("nccl", "nccl|pnccl", 5),  # ncclInvalidUsage
    Library("nvrtc", "nvrtc", 11),  # NVRTC_ERROR_INTERNAL_ERROR
    Library("nvJitLink", "nvJitLink", 6),  # NVJITLINK_ERROR_INTERNAL
    Library("cupti", "cupti", 27, PROFILER),  # CUPTI_ERROR_NOT_SUPPORTED
    Library("cufile", "cuFile", 5007),  # CU_FILE_PLATFORM_NOT_SUPPORTED
    Library(
        "nvshmem_host",
        "nvshmem",
        3,  # NVSHMEMX_ERROR_NOT_SUPPORTED
        # These return addresses, of which there are none, or "not initialized", or a number of members.
        returns={
            "nvshmem_malloc": 0,
            "nvshmem_ptr": 0,
            "nvshmemx_mc_ptr": 0,
            "nvshmemid_init_status": 0,
            "nvshmem_team_n_pes": -1,
        },
    ),
    Library("nvToolsExt", "nvtx", 0, "nvtx\\w+"),
)
BY_STEM = {library.stem: library for library in LIBRARIES}
DRIVER, MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"  # opened by name, so no import tells of them

# Wheels that bring the libraries along rename them: libcudart-9335f6a2.so.12
SONAME = re.compile(r"lib([A-Za-z_-]+?)(?:-[0-9a-f]{8})?\.so(?:\.([0-9.]+))?")


def library_of(soname: str) -> Library | None:
    """The library that a soname stands for, if a stand-in is made for it."""
    match = SONAME.fullmatch(soname)
    return BY_STEM.get(match[1]) if match else None


def library_by_prefix(symbol: str) -> Library | None:
    """The library that a function is from, by its name."""
    if not symbol.startswith(("cu", "nv", "nccl", "pnccl", "__cuda")):
        return None
    return next((library for library in LIBRARIES if re.match(library.prefix, symbol)), None)


def file_name(soname: str) -> str:
    """The stand-in's file. PyTorch takes a mapped file with libcudart.so in its name for NVIDIA's, so: cudart-13.so."""
    return soname.removeprefix("lib").replace(".so", "").replace(".", "-") + ".so"
