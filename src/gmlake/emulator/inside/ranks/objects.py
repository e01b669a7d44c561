"""Collectives of Python objects. They do not go over the device: an object may be larger than what the device keeps
of a tensor, and PyTorch computes sizes with kernels, which do nothing.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import torch.distributed
import torch.distributed.distributed_c10d as c10d

from gmlake.emulator.inside.ranks.transports import Stored, Symmetric, Transport

_transport: Transport


def install(transport: Transport) -> None:
    """In the place of PyTorch's functions, under both of their names."""
    global _transport
    _transport = transport
    for function in (
        all_gather_object,
        gather_object,
        broadcast_object_list,
        scatter_object_list,
        send_object_list,
        recv_object_list,
    ):
        original = getattr(c10d, function.__name__)
        wrapped = functools.update_wrapper(_for_members(function), original)
        for module in (torch.distributed, c10d):
            setattr(module, function.__name__, wrapped)


def between_equals() -> None:
    """One process stands for a rank of many."""
    install(Symmetric())


def between_processes() -> None:
    """Every rank is a process."""
    install(Stored())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None, weights_only: bool = False) -> None:
    """Every rank's object for every rank."""
    for number, data in enumerate(_transport.gather(group, pickle.dumps(obj), None)):
        object_list[number] = pickle.loads(data)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    weights_only: bool = False,
) -> None:
    """Every rank's object for the destination."""
    target = _group_rank(group, dst, group_dst)
    own = c10d.get_rank(group) == target
    if own != (object_gather_list is not None):
        raise ValueError("object_gather_list must be given on the destination rank, and nowhere else")
    found = _transport.gather(group, pickle.dumps(obj), target)
    if object_gather_list is not None:
        for number, data in enumerate(found):
            object_gather_list[number] = pickle.loads(data)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """The source's objects for every rank. Where nobody knows them, a rank keeps its own."""
    source = _group_rank(group, src, group_src)
    own = c10d.get_rank(group) == source
    data = [pickle.dumps(object_list)] * c10d.get_world_size(group) if own else None
    found = _transport.spread(group, data, source)
    if found is not None and not own:
        object_list[:] = pickle.loads(found)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """One of the source's objects for each rank."""
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    source = _group_rank(group, src, group_src)
    data = None
    if c10d.get_rank(group) == source:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        data = [pickle.dumps(obj) for obj in scatter_object_input_list]
    found = _transport.spread(group, data, source)
    if found is not None:
        scatter_object_output_list[0] = pickle.loads(found)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> None:
    """Objects for one rank."""
    _transport.send(group, pickle.dumps(object_list), _group_rank(group, dst, group_dst))


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> int:
    """Objects from one rank, whose number in the world is the result."""
    wanted = None if src is None and group_src is None else _group_rank(group, src, group_src)
    found, source = _transport.receive(group, wanted)
    if found is not None:
        object_list[:] = pickle.loads(found)
    return int(c10d.get_global_rank(group or c10d._get_default_group(), source))


def _for_members(function: Callable[..., Any]) -> Callable[..., Any]:
    """Other processes are told so and nothing else happens, as in PyTorch."""
    place = list(inspect.signature(function).parameters).index("group")

    def call(*args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group", args[place] if len(args) > place else None)
        if c10d._rank_not_in_group(group):
            c10d._warn_not_in_group(function.__name__)
            return None
        return function(*args, **kwargs)

    return call


def _group_rank(group: Any, rank: int | None, group_rank: int | None) -> int:
    if group_rank is not None:
        return group_rank
    return int(c10d.get_group_rank(group or c10d._get_default_group(), rank or 0))
