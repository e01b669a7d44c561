"""Parameters in chunks, as Colossal-AI's Gemini manages them. Written for this catalogue after Gemini's design, because
Colossal-AI (0.5.0) wants PyTorch 2.5 at most and an old transformers; this is not Colossal-AI.

Parameters are laid one after the other into chunks of equal size, in the order of the model; a larger one has a chunk
of its own. A rank keeps its part of every chunk. A chunk is gathered whole when any of its parameters is about to
compute, and given back when none of them does any more. In the backward pass gradients take the places of the
parameters they belong to; a chunk full of gradients is reduced into the rank's part of it. The optimizer works on a
float32 copy of the parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

from gmlake.workloads.jobs.job import Job

CHUNK = 32 << 20  # elements, Gemini's default least size


class Chunk:
    """Parameters that are gathered and reduced together."""

    def __init__(self, parameters: list[Any], size: int) -> None:
        """Lay them out; the whole has no memory until it is gathered."""
        ranks = dist.get_world_size()
        self.size = -(-size // ranks) * ranks
        self.trained = parameters[0].requires_grad
        self.part = torch.zeros(self.size // ranks, dtype=torch.bfloat16, device="cuda")
        self.whole = torch.empty(self.size, dtype=torch.bfloat16, device="cuda")
        self._bytes = self.whole.untyped_storage().nbytes()
        self._missing = self._count = len(parameters)  # gradients that have not come yet
        self.computing: set[int] = set()
        offset = 0
        for parameter in parameters:
            parameter.data = self.whole[offset : offset + parameter.numel()].view(parameter.shape)
            offset += parameter.numel()
        self._resize(0)
        self.master = torch.nn.Parameter(self.part.float()) if self.trained else None

    def gather(self) -> None:
        """Have all parameters, from all ranks."""
        if not self.whole.untyped_storage().nbytes():
            self._resize(self._bytes)
            dist.all_gather_into_tensor(self.whole, self.part)

    def give_back(self) -> None:
        """Keep only our part."""
        self._resize(0)

    def take_gradient(self, parameter: Any) -> None:
        """Put the gradient where the parameter was; the last one lets the chunk be reduced."""
        with torch.no_grad():
            parameter.data.copy_(parameter.grad)
        parameter.grad = None
        self._missing -= 1
        if self._missing == 0 and self.master is not None:
            self._missing = self._count
            reduced = torch.empty_like(self.part)
            dist.reduce_scatter_tensor(reduced, self.whole)
            self.master.grad = reduced.float()
            self.computing.clear()
            self.give_back()

    def _resize(self, size: int) -> None:
        self.whole.untyped_storage().resize_(size)


class Gemini:
    """A model whose parameters live in chunks."""

    def __init__(self, model: Any) -> None:
        """Lay out the chunks and watch the modules."""
        self.model = model
        self.chunks: list[Chunk] = []
        self._chunk_of: dict[int, Chunk] = {}
        for wants in (True, False):
            self._lay_out([parameter for parameter in model.parameters() if parameter.requires_grad is wants])
        for module in model.modules():
            own = list(module.parameters(recurse=False))
            if own:
                module.register_forward_pre_hook(self._before(own))
                module.register_forward_hook(self._after(own))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda p: self._chunk_of[id(p)].take_gradient(p))
        masters = [chunk.master for chunk in self.chunks if chunk.master is not None]
        self._optimizer = torch.optim.AdamW(masters, lr=1e-4, fused=True)

    def learn(self, loss: torch.Tensor) -> None:
        """One step, on the parts."""
        loss.backward()
        for chunk in self.chunks:
            chunk.computing.clear()
            chunk.give_back()
        self._optimizer.step()
        with torch.no_grad():
            for chunk in self.chunks:
                if chunk.master is not None:
                    chunk.part.copy_(chunk.master)
        self._optimizer.zero_grad()

    def _lay_out(self, parameters: Iterable[Any]) -> None:
        waiting: list[Any] = []
        filled = 0
        for parameter in parameters:
            if waiting and filled + parameter.numel() > CHUNK:
                self._add(waiting, filled)
                waiting, filled = [], 0
            waiting.append(parameter)
            filled += parameter.numel()
        if waiting:
            self._add(waiting, filled)

    def _add(self, parameters: list[Any], filled: int) -> None:
        # Chunks have one size, so that any can take another's place; the last one of a kind is as long as it must be.
        chunk = Chunk(parameters, filled if filled > CHUNK or len(parameters) == 1 else CHUNK)
        self.chunks.append(chunk)
        self._chunk_of |= {id(parameter): chunk for parameter in parameters}

    def _begin(self, parameters: Iterable[Any]) -> None:
        for parameter in parameters:
            chunk = self._chunk_of[id(parameter)]
            chunk.gather()
            chunk.computing.add(id(parameter))
        needed = {id(self._chunk_of[id(parameter)]) for parameter in parameters}
        for chunk in self.chunks:  # only when others are needed: layers that follow each other share chunks
            if not chunk.computing and id(chunk) not in needed:
                chunk.give_back()

    def _end(self, parameters: Iterable[Any]) -> None:
        for parameter in parameters:
            self._chunk_of[id(parameter)].computing.discard(id(parameter))

    def _before(self, parameters: list[Any]) -> Callable[..., None]:
        frozen = [parameter for parameter in parameters if not parameter.requires_grad]

        def hook(_module: Any, inputs: tuple[Any, ...]) -> None:
            self._begin(parameters)
            for value in inputs:  # its gradient is the last that the module computes
                if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
                    value.register_hook(lambda _: self._end(frozen))

        return hook

    def _after(self, parameters: list[Any]) -> Callable[..., None]:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            self._end(parameters)
            if isinstance(output, torch.Tensor) and output.requires_grad:
                output.register_hook(lambda _: self._begin(parameters))

        return hook


def prepare(make: Callable[[], Any], job: Job) -> Gemini:
    """Join the other ranks and make the model."""
    if job.offload:
        raise NotImplementedError("parameters on the host are for zero3 only, in this catalogue")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = make()
    move(model)
    return Gemini(model)


def move(model: Any) -> None:
    """From the meta device to this one; parameters have their shapes, but only a chunk gives them memory."""
    moved: dict[Any, Any] = {}
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            module.register_buffer(name, torch.empty_like(buffer, device="cuda"), persistent=False)
        for name, parameter in module.named_parameters(recurse=False):
            if parameter not in moved:  # or else it is tied to another
                flat = torch.empty(1, dtype=parameter.dtype, device="cuda").expand(parameter.shape)
                moved[parameter] = torch.nn.Parameter(flat, requires_grad=parameter.requires_grad)
            setattr(module, name, moved[parameter])
