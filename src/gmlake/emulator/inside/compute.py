"""Shadow compute: every operator is run on the emulated device and redone on the CPU, in the same memory.

The device's kernels do nothing, but they are called: PyTorch allocates, frees and synchronises as it does on a GPU.
Then the same operator runs on CPU tensors that lie in the device's memory. What a CPU run of the program computes is so
computed here, bit for bit, in the memory that the device's allocator handed out; an allocator that hands out memory
twice changes the values.

The kernels stand on the CUDA dispatch key, below autograd: they serve every thread, and modes, autograd and
distributed tensors see nothing of them. While an operator's own kernel runs, the operators it calls are not redone.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from gmlake.emulator.inside import (
    accesses,
    aliasing,
    generators,
    graphs,
    layouts,
    native,
    powers,
    redo,
    report,
    sizes,
    triton,
)
from gmlake.emulator.inside.operators import Operator, covered
from gmlake.emulator.inside.settings import Settings

_C = torch._C
_not_computed: dict[str, str] = {}
_library: Any = None

# What an error of the CPU's operator says when the CPU cannot do it. Any other error is one of the program's, for
# which a GPU would have stopped it too, and is raised.
_UNABLE = ("not implemented", "not supported", "unsupported", "Could not run", "dtype", "scalar type", "ScalarType")


class _Thread(threading.local):
    # The operator whose own kernel is running, and its arguments; None where what it calls is redone as well.
    inside: tuple[Operator, tuple[Any, ...]] | None = None


_thread = _Thread()


def start(settings: Settings) -> None:
    """Put the kernels in place. Without `compute` they only tell the device what operators read and write."""
    global _library
    if not hasattr(torch.library, "get_kernel"):  # an exception would end in a page of PyTorch's about backends
        sys.exit(f"gmlake: --compute and --hazards need a newer PyTorch; torch {torch.__version__} cannot do it")
    with contextlib.suppress(ImportError):  # PyTorch's own kernels in Triton, which would otherwise be put over ours
        importlib.import_module("torch._native")
    _library = torch.library.Library("aten", "IMPL")
    shadow = _Shadow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is the purpose
        for operator in list(covered()):
            _replace(operator, shadow.kernel(operator) if settings.compute else shadow.watched(operator), "CUDA")
        if settings.compute:
            _replace_other_layouts(shadow.state)
    if settings.compute:
        graphs.start()
        native.on_read(_looked)
        triton.on_load(_loaded)
        report.add("not_computed", lambda: not_computed() or None)


def _replace_other_layouts(state: tuple[Any, Any]) -> None:
    for operator in list(layouts.concerned(layouts.SPARSE)):
        _replace(operator, layouts.sparse(operator, state), layouts.SPARSE)
    for key, kind in layouts.OTHERS.items():
        for operator in list(layouts.concerned(key)):
            _replace(operator, layouts.untold(operator, kind, _tell), key)


def _replace(operator: Operator, kernel: Callable[..., Any], key: str) -> None:
    _library.impl(operator.name.removeprefix("aten::"), kernel, key, with_keyset=True)


def not_computed() -> dict[str, str]:
    """Operators that ran but could not be redone on the CPU, and why: what depends on them is not real."""
    return dict(sorted(_not_computed.items()))


class _Shadow:
    """Makes the kernels, and holds what they share."""

    def __init__(self) -> None:
        self._numbers = aliasing.Numbers()
        self._instead = powers.kernels(self._numbers)
        self._hazards = native.configured("hazards") == "1"
        # The redo runs below autograd, in the state of a fresh thread: no mode, no autocast, no transform.
        with _C._AutoDispatchBelowADInplaceOrView():
            self.state = (_C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set())

    def kernel(self, operator: Operator) -> Callable[..., Any]:
        """The kernel that replaces the operator's own."""
        if operator.name in sizes.HOST_FIRST:
            return self._host_first(operator)
        if operator.name == "aten::copy_":
            return self._copy(operator)
        return self._host_after(operator)

    def watched(self, operator: Operator) -> Callable[..., Any]:
        """The operator's own kernel, whose accesses are told; those of the operators that it calls are among them."""
        among = self._numbers.among
        original = self._instead.get(operator.name, operator.kernel)

        def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            args = among(operator.tensors, args)
            if _thread.inside is not None:
                return original(keyset, *args, **kwargs)
            _thread.inside = (operator, args)
            try:
                result = original(keyset, *args, **kwargs)
            except BaseException:
                args, kwargs = (), {}
                raise
            finally:
                _thread.inside = None
            if not graphs.capturing():
                with _C.DisableTorchFunction():
                    accesses.report(operator, args, kwargs, result)
            return result

        return run

    def _host_after(self, operator: Operator) -> Callable[..., Any]:
        """The device's kernel runs and allocates the results; then the CPU fills them."""
        original = self._instead.get(operator.name, operator.kernel)
        among = self._numbers.among
        tensors = operator.tensors

        def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if _thread.inside is not None:
                return original(keyset, *among(tensors, args), **kwargs)
            capturing = graphs.capturing()
            args = among(tensors, graphs.frozen(args) if capturing else args)
            generator = _generator(args, kwargs) if operator.random and not capturing else None
            if generator is not None:
                generators.about_to_draw(generator)
            _thread.inside = None if operator.looking else (operator, args)
            try:
                result = original(keyset, *args, **kwargs)
            except BaseException:
                args, kwargs = (), {}  # the traceback keeps this frame, which must not keep tensors
                raise
            finally:
                _thread.inside = None
            result = self._redo(operator, args, kwargs, result, capturing)
            if generator is not None:
                generators.has_drawn(generator)
            return result

        return run

    def _copy(self, operator: Operator) -> Callable[..., Any]:
        """A plain copy is made by the device itself; only what converts or rearranges is a kernel."""
        run = self._host_after(operator)

        def copy(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            to, source = args[0], args[1]
            if isinstance(source, torch.Tensor):
                with _C.DisableTorchFunction():
                    plain = aliasing.same_layout(to, source)
                    if _would_spoil(operator, to, source):
                        return to
                if plain:
                    return operator.kernel(keyset, *args, **kwargs)
            return run(keyset, *args, **kwargs)

        return copy

    def _host_first(self, operator: Operator) -> Callable[..., Any]:
        """The CPU's result says how large the device's has to be."""
        function = operator.overload.overloadpacket

        def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if graphs.capturing():
                return operator.kernel(keyset, *args, **kwargs)  # which cannot be captured, and says so
            out = kwargs.pop("out", None)
            with _C._ForceDispatchKeyGuard(*self.state), _C.DisableTorchFunction():
                answers = function(*aliasing.arguments(args), **kwargs)
                result = sizes.results(operator.name, answers, out, args[0].device)
                redo.store(aliasing.arguments(result), answers)
                if self._hazards:
                    accesses.report(operator, args, kwargs, result)
            return result

        return run

    def _redo(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, capturing: bool
    ) -> Any:
        answer = None
        with _C._ForceDispatchKeyGuard(*self.state), _C.DisableTorchFunction():
            try:
                call = redo.Call(operator, args, kwargs, result)
                if capturing:
                    graphs.record(lambda: self._replay(call))
                else:
                    answer = call()
            except (NotImplementedError, RuntimeError) as error:
                _note(operator.name, error)
                redo.clear(operator, result)
            if self._hazards and not capturing:
                accesses.report(operator, args, kwargs, result)
        return answer if operator.answers and answer is not None else result

    def _replay(self, call: redo.Call) -> None:
        with _C._ForceDispatchKeyGuard(*self.state), _C.DisableTorchFunction():
            try:
                call()
            except (NotImplementedError, RuntimeError) as error:
                _note(call.operator.name, error)


def _would_spoil(copy: Operator, to: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a copy on the device is part of a kernel that computed nothing, so that the CPU still has to read.

    A copy that goes to another device by way of temporary tensors is made of such parts too. The one between the
    devices lets their streams wait for each other, and spoils nothing: whatever it writes is then redone.
    """
    if _thread.inside is None or not (to.is_cuda and source.is_cuda):
        return False
    return _thread.inside[0] is not copy or not aliasing.are_apart(to, source)


def _note(name: str, error: Exception) -> None:
    """Say once what cannot be redone; an error of the program is raised."""
    message = str(error).partition("\n")[0]
    if not isinstance(error, NotImplementedError) and not any(words in message for words in _UNABLE):
        raise error
    _tell(name, message.partition(". This could be")[0])


def _tell(name: str, why: str) -> None:
    """Say it the first time."""
    if name not in _not_computed:
        _not_computed[name] = why
        sys.stderr.write(f"gmlake: {name} could not be redone on the CPU ({why}); what follows from it is not real\n")


def _looked(source: int, size: int) -> None:
    """Called by the device after a copy to the host: did a kernel read what only its own work could have put there?"""
    if _thread.inside is None:
        return
    operator, args = _thread.inside
    if operator.name in _not_computed or operator.name == "aten::copy_":
        return
    for tensor in aliasing.tensors(args):
        start, length = aliasing.span(tensor)
        if start <= source < start + length:
            return  # an argument, which is there
    _tell(operator.name, "its kernel looks at values that are not there yet")


def _loaded(name: str) -> None:
    """Called when a kernel in Triton is loaded: unless an operator does it, which is redone."""
    if _thread.inside is None:
        _tell("kernels in Triton", f"the program's own, or those of torch.compile: the first is {name}")


def _generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Generator | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return value
    return None
