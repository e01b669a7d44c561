"""One process as rank `rank` of a job of `world_size` ranks: every other rank is taken to do and to hold the same.

CUDA groups are the native library's affair (emulator/libraries/collectives): here is what stands before and beside
them. The rendezvous needs no other process (`store`), groups of CPU tensors give what so many equal ranks would give
(`cpu_group`), and so do collectives of Python objects (`objects`). Real processes find each other as ever; there only
objects need help, and `pending` gives PyTorch the time that an emulated iteration does not take.

What another rank really holds is unknown. Where that matters, this is what happens on a rank that is not the source:
a broadcast leaves the tensor or object as it is, a scatter leaves the output as it is, a receive gives what this rank
itself sent last (nothing, if it sent nothing), and reading a key of the store that only another rank would write
raises an error that names the key. On rank 0, the source of nearly everything, programs do not notice. Checks that
compare this rank with rank 0 by a broadcast into a placeholder (DeepSpeed's assert_ints_same_as_other_ranks) fail on
other ranks: prefer rank 0.
"""

from __future__ import annotations

import os


def start(world_size: int, rank: int) -> None:
    """Let torch.distributed find its peers. Costs next to nothing until a process group is made."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from gmlake.emulator.inside.ranks import groups, objects, pending, store

    # Its thread asks the store now and then whether a peer is in trouble; there are none.
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
    store.install(world_size, rank)
    groups.install()
    objects.between_equals()
    pending.install()


def start_among_processes(compute: bool) -> None:
    """Every rank is a process of its own, if there are ranks at all."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    from gmlake.emulator.inside.ranks import objects, pending

    if not compute:
        objects.between_processes()
    pending.install()
