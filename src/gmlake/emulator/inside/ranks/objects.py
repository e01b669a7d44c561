"""Collectives of Python objects, when every rank is taken to hand in the same. They do not go over the device: an
object may be larger than what the device keeps of a tensor, and sizes are computed by kernels, which do nothing.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
import torch.distributed.distributed_c10d as c10d

_sent: list[Any] = []


def install() -> None:
    """In the place of PyTorch's functions, under both of their names."""
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


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None, weights_only: bool = False) -> None:
    """Copies of our own."""
    object_list[: c10d.get_world_size(group)] = [_copy(obj) for _ in range(c10d.get_world_size(group))]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    weights_only: bool = False,
) -> None:
    """The same, for the destination."""
    if not _is_me(group, dst, group_dst):
        return
    if object_gather_list is None:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """The source keeps its objects. What it would send to another rank is unknown: that one keeps its own."""
    for obj in object_list:
        _copy(obj)  # fails where the real one would: not everything can be sent


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """The source takes its own part; what another rank would get is unknown."""
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    if not _is_me(group, src, group_src):
        return
    if scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = _copy(scatter_object_input_list[c10d.get_rank(group)])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> None:
    """Kept for a receive of ours."""
    _sent.append([_copy(obj) for obj in object_list])
    del _sent[:-256]


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> int:
    """What we sent first, if that was as many objects; else they stay as they are."""
    for number, objects in enumerate(_sent):
        if len(objects) == len(object_list):
            object_list[:] = _sent.pop(number)
            break
    if src is not None or group_src is None:
        return src or 0
    return int(c10d.get_global_rank(group or c10d._get_default_group(), group_src))


def _for_members(function: Callable[..., Any]) -> Callable[..., Any]:
    """Other processes are told so and nothing else happens, as in PyTorch."""
    place = list(function.__code__.co_varnames).index("group")

    def call(*args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group", args[place] if len(args) > place else None)
        if c10d._rank_not_in_group(group):
            c10d._warn_not_in_group(function.__name__)
            return None
        return function(*args, **kwargs)

    return call


def _is_me(group: Any, rank: int | None, group_rank: int | None) -> bool:
    if group_rank is not None:
        return bool(c10d.get_rank(group) == group_rank)
    return bool(c10d.get_rank() == (rank or 0))


def _copy(obj: Any) -> Any:
    """Through a pickle, as on the way to another process. Tensors keep their device, as they would there."""
    buffer = io.BytesIO()
    pickle.Pickler(buffer).dump(obj)
    return pickle.loads(buffer.getvalue())
