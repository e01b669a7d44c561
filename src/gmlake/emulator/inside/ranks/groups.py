"""How process groups are made when there is only one process: what differs is told here, the rest is PyTorch's."""

from __future__ import annotations

from typing import Any

import torch.distributed
from torch._C import _distributed_c10d as c10d

from gmlake.emulator.inside import native


def install() -> None:
    """Groups of CPU tensors are ours; groups of CUDA tensors are PyTorch's own, on the emulated NCCL."""
    backend = torch.distributed.Backend
    backend.register_backend(
        "gloo",
        _make_cpu_group,
        extended_api=True,
        devices=["cpu", "cuda"],
        _backend_type=c10d.ProcessGroup.BackendType.GLOO,
    )
    for name in ("nccl", "nccl2", "nccl-legacy", "nccl-lazy"):
        backend._ensure_backend_registered(name)
        plugin = backend._plugins.get(name.upper())
        if plugin is not None:
            backend._plugins[name.upper()] = plugin._replace(creator_fn=_without_split(plugin.creator_fn))
    _announce_splits()
    _fill_gathers()


def _make_cpu_group(options: Any, backend_options: object | None) -> Any:
    from gmlake.emulator.inside.ranks.cpu_group import CpuGroup

    return CpuGroup(options.group_rank, options.group_size)


def _without_split(create: Any) -> Any:
    """A communicator made by a split does not say how large it is, one made afresh does."""

    def make(options: Any, backend_options: object | None) -> Any:
        options.split_from = None
        return create(options, backend_options)

    return make


def _announce_splits() -> None:
    """split_group splits all the same: tell the native library beforehand what will come of it."""
    split = getattr(c10d.ProcessGroup, "split_group", None)
    if split is None:
        return

    def split_group(self: Any, ranks: Any, *args: Any, **kwargs: Any) -> Any:
        members = list(ranks)
        if self.rank() in members:
            native.collective_group(len(members), members.index(self.rank()))
        return split(self, ranks, *args, **kwargs)

    c10d.ProcessGroup.split_group = split_group


def _fill_gathers() -> None:
    """A gather arrives as receives from everybody, without a word of what this rank hands in: complete it here."""
    gather = c10d.ProcessGroup.gather

    def filled(self: Any, outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        work = gather(self, outputs, inputs, *args, **kwargs)
        sources = [inputs] if hasattr(inputs, "device") else list(inputs)
        for many, one in zip(outputs, sources, strict=False):
            for output in many if one.device.type == "cuda" else ():
                output.copy_(one)
        return work

    c10d.ProcessGroup.gather = filled
