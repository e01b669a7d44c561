"""A group of CPU tensors ("gloo") whose other ranks are taken to hold the same: the work is done when it is asked for.

Also for CUDA tensors, which gloo accepts; they take the way over the host, as with gloo itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

Tensors = Sequence[Any]
_MESSAGES = 256  # a pipeline has a few under way; what nobody receives must not pile up


class CpuGroup(c10d.Backend):  # type: ignore[misc]
    """The group, seen from one of its ranks."""

    # All of them, because PyTorch asks in circles for one that is not here.
    supports_splitting = True
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False

    def __init__(self, rank: int, size: int) -> None:
        """Nobody to connect to."""
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        self._sent: list[Any] = []
        self._options = c10d.Backend.Options("gloo")

    def name(self) -> str:
        """As PyTorch's own, because programs ask."""
        return "gloo"

    def getBackendName(self) -> str:
        """As PyTorch's own, because programs ask."""
        return "gloo"

    @property
    def options(self) -> Any:
        """Nothing in them matters here."""
        return self._options

    def split(self, store: Any, ranks: Sequence[int], options: Any) -> CpuGroup | None:
        """A part of this group, if this rank is in it."""
        members = list(ranks)
        return CpuGroup(members.index(self._rank), len(members)) if self._rank in members else None

    # One tensor per rank and the same everywhere: in place.

    def allreduce(self, tensors: Tensors, options: Any) -> Any:
        """So many times the same, reduced."""
        for tensor in tensors:
            tensor.copy_(self._reduced(tensor, options.reduceOp))
        return _done(tensors)

    def allreduce_coalesced(self, tensors: Tensors, options: Any) -> Any:
        """The same for several tensors."""
        return self.allreduce(tensors, options)

    def reduce(self, tensors: Tensors, options: Any) -> Any:
        """Only the root gets the result."""
        if options.rootRank == self._rank:
            return self.allreduce(tensors, options)
        return _done(tensors)

    def broadcast(self, tensors: Tensors, options: Any) -> Any:
        """The root has what we have, as far as anybody knows."""
        return _done(tensors)

    # Many from one.

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, options: Any) -> Any:
        """Copies."""
        for many, one in zip(outputs, inputs, strict=True):
            for output in many:
                output.copy_(one)
        return _done([output for many in outputs for output in many])

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, options: Any) -> Any:
        """One list per rank here, each with a place for every input."""
        for one_rank in outputs:
            for output, one in zip(one_rank, inputs, strict=True):
                output.copy_(one)
        return _done([output for many in outputs for output in many])

    def all_gather_single(self, output: Any, one: Any, options: Any) -> Any:
        """Copies, one after the other."""
        output.view(self._size, -1).copy_(one.reshape(1, -1).expand(self._size, -1))
        return _done([output])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, options: Any) -> Any:
        """The same for several tensors."""
        for output, one in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, one, options)
        return _done(outputs)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, options: Any) -> Any:
        """Only the root gets the copies."""
        return self.allgather(outputs, inputs, options) if options.rootRank == self._rank else _done(inputs)

    # One from many.

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], options: Any) -> Any:
        """Ours, if we are the root; else nobody knows what the root would send."""
        if options.rootRank == self._rank:
            for output, many in zip(outputs, inputs, strict=True):
                output.copy_(many[self._rank])
        return _done(outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], options: Any) -> Any:
        """Our part, so many times."""
        for output, many in zip(outputs, inputs, strict=True):
            output.copy_(self._reduced(many[self._rank], options.reduceOp))
        return _done(outputs)

    def reduce_scatter_single(self, output: Any, whole: Any, options: Any) -> Any:
        """Our part, so many times."""
        part = whole.reshape(self._size, -1)[self._rank]
        output.view(-1).copy_(self._reduced(part, options.reduceOp))
        return _done([output])

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, options: Any) -> Any:
        """The same for several tensors."""
        for output, whole in zip(outputs, inputs, strict=True):
            self.reduce_scatter_single(output, whole, options)
        return _done(outputs)

    # Each to each: every rank sends us what we would send to a rank of our number.

    def alltoall(self, outputs: Tensors, inputs: Tensors, options: Any) -> Any:
        """Copies of the tensor for our own rank, where it fits."""
        for output in outputs:
            if output.numel() == inputs[self._rank].numel():
                output.copy_(inputs[self._rank].view_as(output))
        return _done(outputs)

    def all_to_all_single(
        self, output: Any, whole: Any, output_sizes: Sequence[int], sizes: Sequence[int], options: Any
    ) -> Any:
        """The same with the parts in one tensor."""
        parts = whole.split(list(sizes) or [len(whole) // self._size] * self._size)
        places = output.split(list(output_sizes) or [len(output) // self._size] * self._size)
        return self.alltoall(places, parts, options)

    def send(self, tensors: Tensors, to: int, tag: int) -> Any:
        """Kept for a receive of ours."""
        self._sent.extend(tensor.detach().clone() for tensor in tensors)
        del self._sent[:-_MESSAGES]
        return _done(tensors)

    def recv(self, tensors: Tensors, source: int, tag: int) -> Any:
        """What we sent first, among what fits; nothing changes if we sent nothing."""
        for tensor in tensors:
            fits = [i for i, sent in enumerate(self._sent) if sent.numel() == tensor.numel()]
            if fits:
                tensor.copy_(self._sent.pop(fits[0]).view_as(tensor))
        return _done(tensors)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Any:
        """From whomever."""
        return self.recv(tensors, 0, tag)

    def barrier(self, options: Any) -> Any:
        """Everybody is there."""
        return _done([])

    def monitored_barrier(self, options: Any, wait_for_all: bool = False) -> None:
        """Everybody is there."""

    def shutdown(self) -> None:
        """Nothing to close."""

    def abort(self) -> None:
        """Nothing to close."""

    def set_timeout(self, timeout: Any) -> None:
        """Nothing takes any time."""

    def _set_sequence_number_for_group(self) -> None:
        """Nobody to compare it with."""

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _reduced(self, tensor: Any, operator: Any) -> Any:
        """What the reduction of so many equal tensors gives."""
        # On the host: a kernel of the emulated device would do nothing.
        value = tensor.detach().cpu()
        kinds = c10d.ReduceOp.RedOpType
        kind = operator.op if hasattr(operator, "op") else operator
        if kind == kinds.SUM:
            return value * self._size
        if kind == kinds.PRODUCT:
            return value**self._size
        if kind == kinds.BXOR:
            return value if self._size % 2 else torch.zeros_like(value)
        if kind == kinds.PREMUL_SUM:
            raise RuntimeError("gloo has no PREMUL_SUM")
        return value.clone()  # the largest, smallest, mean, and and or of equals


class Result(list[Any]):
    """The tensors of an operation that is over."""


def _done(tensors: Tensors) -> Any:
    """Finished work with the tensors as its result."""
    future = torch.futures.Future()
    future.set_result(Result(tensors))
    return c10d._create_work_from_future(future)


def _is_completed(work: Any, ask: Any = c10d.Work.is_completed) -> bool:
    """PyTorch hands our work on in a case of its own, which forwards everything but this question."""
    if ask(work):
        return True
    try:
        return isinstance(work.get_future().value(), Result)
    except (RuntimeError, NotImplementedError):  # no future, or not done
        return False


c10d.Work.is_completed = _is_completed
