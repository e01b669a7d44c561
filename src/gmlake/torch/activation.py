"""Puts GMLake in the place of PyTorch's CUDA allocator, once per process and before CUDA is in use.

PyTorch offers the place (torch.cuda.memory.CUDAPluggableAllocator) and lets it be taken once. Whatever stands in the
way is found before anything is changed, and PyTorch's own allocator then stays. Nothing here starts CUDA: a process
may still fork afterwards and let its children use the device.
"""

from __future__ import annotations

import ctypes
import difflib
import os
import warnings
from typing import Any

from gmlake import _core
from gmlake.errors import CannotEnable, InvalidArgument

OLDEST_DRIVER = 11020  # CUDA 11.2, in the driver's own numbers
ON, OFF, STRICT = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off"), "strict"
OTHERS = ("LOG", "COMPARE", "BRIDGE")  # after GMLAKE_: variables that are no options of the allocator

# PyTorch's setters, and our callback for each.
SETTERS = {
    "set_init_fn": "init",
    "set_reset_fn": "empty_cache",
    "set_memory_fraction_fn": "memory_fraction",
    "set_base_alloc_fn": "base_allocation",
    "set_record_stream_fn": "record_stream",
    "set_begin_allocate_to_pool": "begin_pool",
    "set_end_allocate_to_pool_fn": "end_pool",
    "set_release_pool": "release_pool",
}

_installed: Any = None  # the allocator as PyTorch knows it; kept for ever, because memory is freed until the end


def enable(**options: object) -> None:
    """Serve PyTorch's CUDA memory from GMLake, from the first allocation on.

    Options are those that `gmlake options gmlake` lists, as in `gmlake.enable(target=0.99, chunk_limit="8MiB")`; what
    is not given comes from the environment. Raises CannotEnable, a RuntimeError, when it is too late or PyTorch cannot
    take another allocator, and InvalidArgument for a wrong option; PyTorch's own allocator then stays.
    """
    global _installed
    if _installed is not None:
        if options:
            raise CannotEnable("GMLake serves this process already; give options with the first gmlake.enable()")
        return
    compare = _flag("option compare", options.pop("compare")) if "compare" in options else _compare_from_environment()
    written = {name: _written(value) for name, value in options.items()}
    _check_options(written)
    torch = _torch()
    _check_driver()
    for name, value in written.items():  # once set they stay, and nothing stands in the way any more
        _core.set_process_option(name, value)
    _installed = _install(torch)
    from gmlake.torch import looking, shim

    shim.install()
    if compare:
        _core.start_rival()
    looking.start_log()


def disable() -> None:
    """Say that it cannot be done: PyTorch does not change its allocator back, and blocks are out."""
    if _installed is not None:
        raise CannotEnable("PyTorch cannot leave an allocator it was given; start the process without GMLake instead")


def is_enabled() -> bool:
    """Whether GMLake serves this process."""
    return _installed is not None


def check_environment() -> None:
    """Would GMLake serve a process with our environment? CannotEnable or InvalidArgument names a variable if not.

    Only what the variables say is looked at: nothing is started for it.
    """
    _check_switch(os.environ.get("GMLAKE", "").strip().lower())
    _compare_from_environment()
    _check_options({})


def enable_from_environment(wanted: str) -> None:
    """What GMLAKE=... asks for; unless it is strict, a warning takes the place of an error."""
    wanted = wanted.strip().lower()
    if wanted in OFF:
        return
    try:
        _check_switch(wanted)
        enable()
    except (CannotEnable, InvalidArgument) as error:
        if wanted == STRICT:
            raise
        warnings.warn(f"GMLake is not used, PyTorch's own allocator is: {error}", RuntimeWarning, stacklevel=2)


def _check_switch(wanted: str) -> None:
    if wanted not in (*ON, *OFF, STRICT):
        raise CannotEnable(f"GMLAKE={wanted} means nothing; expected 1, strict or 0")


def _compare_from_environment() -> bool:
    return _flag("GMLAKE_COMPARE", os.environ.get("GMLAKE_COMPARE", "0"))


def _flag(name: str, value: object) -> bool:
    text = str(value).lower()
    if text not in (*ON, *OFF):
        raise InvalidArgument(f"{name} is 1 or 0, not '{value}'")
    return text in ON


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_options(options: dict[str, str]) -> None:
    """Are they possible, and those of the environment? An allocator is the judge, and needs no real device for it."""
    nowhere = _core.SimulatedDriver()
    for name, value in options.items():
        _core.make_allocator(f"gmlake:{name}={value}", nowhere)
    try:
        _core.check_process_options()
    except InvalidArgument as error:
        raise InvalidArgument(_with_variable(str(error))) from None


def _with_variable(problem: str) -> str:
    """What is wrong with an option in the environment: with its variable, or with the one that may have been meant."""
    [names] = ([option.name for option in row.options] for row in _core.catalogue() if row.name == "gmlake")
    for name in names:
        if problem.startswith(f"option {name} "):  # it is a number, but an impossible one
            return f"GMLAKE_{name.upper()}: {problem}"
    written = problem.partition(":")[0].removeprefix("GMLAKE_").upper()
    known = [*map(str.upper, names), *OTHERS]
    if written in known:
        return problem
    near = difflib.get_close_matches(written, known, n=1)
    meant = f"; did you mean GMLAKE_{near[0]}?" if near else ""
    return f"{problem}, which `gmlake options gmlake` explains{meant}"


def _torch() -> Any:
    """The torch of this environment, if it can take another allocator now."""
    try:
        import torch
    except ImportError as error:
        raise CannotEnable(
            f"PyTorch cannot be imported ({error}); install it beside gmlake: pip install torch"
        ) from None
    if not hasattr(torch._C, "_cuda_customAllocator"):
        raise CannotEnable(f"torch {torch.__version__} has no CUDA; install a CUDA build of PyTorch")
    from gmlake.torch import shim

    lacking = shim.lacking()
    if lacking:
        raise CannotEnable(f"torch {torch.__version__} lacks {lacking[0]}; GMLake supports PyTorch 2.6 and newer")
    if torch.cuda._is_in_bad_fork():
        raise CannotEnable("this process was forked from one that uses the GPU and cannot use it too")
    if torch.cuda.is_initialized():
        raise CannotEnable("CUDA is in use already; call gmlake.enable() before the first use of the GPU")
    backend = torch._C._cuda_getAllocatorBackend()
    if backend != "native":
        raise CannotEnable(
            f"PyTorch was told to use the allocator '{backend}'; GMLake takes the place of 'native' only"
        )
    return torch


def _check_driver() -> None:
    """Is there a driver with virtual memory management? Its version can be asked without starting CUDA."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CannotEnable("the CUDA driver library libcuda.so.1 was not found; install the NVIDIA driver") from None
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0 or not hasattr(library, "cuMemMap"):
        raise CannotEnable("the CUDA driver has no virtual memory management; install a newer NVIDIA driver")
    if version.value < OLDEST_DRIVER:
        major, minor = version.value // 1000, version.value % 1000 // 10
        raise CannotEnable(f"the NVIDIA driver supports CUDA {major}.{minor}; GMLake needs one for CUDA 11.2 or newer")


def _install(torch: Any) -> Any:
    """Over the bridge if it can be had, else by the functions that PyTorch offers to call; both serve the same."""
    from gmlake.torch import bridge

    try:
        return bridge if bridge.install(torch) else _install_callbacks(torch)
    except CannotEnable:
        raise
    except RuntimeError:  # pinned memory, for one, starts CUDA without torch.cuda knowing
        raise CannotEnable("CUDA is in use already; call gmlake.enable() before the first use of the GPU") from None


def _install_callbacks(torch: Any) -> Any:
    callbacks = _core.torch_callbacks()
    allocator = torch._C._cuda_customAllocator(callbacks["allocate"], callbacks["free"])
    for setter, callback in SETTERS.items():
        if not hasattr(allocator, setter):
            raise CannotEnable(f"torch {torch.__version__} lacks {setter}; GMLake supports PyTorch 2.6 and newer")
        getattr(allocator, setter)(callbacks[callback])
    torch._C._cuda_changeCurrentAllocator(allocator)
    # The NCCL of PyTorch 2.15 asks every allocator what these functions cannot answer, and ends the process; the one
    # before is still there.
    os.environ.setdefault("TORCH_DIST_USE_NCCL2", "0")
    return allocator
