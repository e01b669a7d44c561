"""Every function of torch.cuda.memory and torch.accelerator.memory, in one program. Run by test_memory_api.

Each step allocates or frees something and then asks for everything; what cannot be the same under two allocators
(addresses, times, process ids) is left out.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

import torch

MIB = 1 << 20
answers: dict[str, Any] = {}


def ask(name: str, question: Callable[[], Any]) -> None:
    """Keep the answer, or the kind of error."""
    try:
        answers[name] = question()
    except Exception as error:
        answers[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


def figures() -> dict[str, int]:
    return {
        name: getattr(torch.cuda, name)()
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    }


def steps() -> None:
    memory = torch.cuda.memory
    ask("before", lambda: torch.cuda.memory_stats())
    small = torch.empty(1000, dtype=torch.uint8, device="cuda")
    large = [torch.empty(24 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    ask("after three", figures)
    ask("flat", lambda: torch.cuda.memory_stats())
    ask("nested", lambda: memory.memory_stats_as_nested_dict())
    ask("by number", lambda: torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated("cuda:0"))
    ask("unknown device", lambda: torch.cuda.memory_stats(7))
    del large[1]
    ask("after a free", figures)
    torch.cuda.reset_peak_memory_stats()
    ask("after resetting peaks", figures)
    torch.cuda.reset_accumulated_memory_stats()
    ask("after resetting sums", lambda: torch.cuda.memory_stats()["allocation.all.allocated"])
    ask("old names", lambda: (torch.cuda.memory_cached(), torch.cuda.max_memory_cached()))
    torch.cuda.reset_max_memory_allocated()
    torch.cuda.reset_max_memory_cached()
    ask("summary", lambda: torch.cuda.memory_summary().count("|") > 100)
    ask("abbreviated", lambda: torch.cuda.memory_summary(abbreviated=True).count("|") > 50)
    torch.cuda.empty_cache()
    ask("after emptying", figures)
    ask("free and total", lambda: torch.cuda.mem_get_info())
    ask("empty tensor", lambda: torch.empty(0, device="cuda").untyped_storage().size())

    ask("fraction", lambda: torch.cuda.get_per_process_memory_fraction())
    torch.cuda.set_per_process_memory_fraction(0.25)
    ask("a quarter", lambda: torch.cuda.get_per_process_memory_fraction())
    ask("too much", lambda: torch.empty(30 << 30, dtype=torch.uint8, device="cuda"))
    torch.cuda.set_per_process_memory_fraction(1.0)
    ask("enough again", lambda: torch.empty(30 << 30, dtype=torch.uint8, device="cuda").numel())
    ask("wrong fraction", lambda: torch.cuda.set_per_process_memory_fraction(2.0))

    raw = torch.cuda.caching_allocator_alloc(3 * MIB)
    ask("raw", lambda: figures()["memory_allocated"])
    torch.cuda.caching_allocator_delete(raw)
    ask("raw gone", lambda: figures()["memory_allocated"])
    with contextlib.redirect_stdout(io.StringIO()):
        ask("processes", lambda: type(torch.cuda.list_gpu_processes()).__name__)
    ask("host", lambda: sorted(torch.cuda.host_memory_stats())[:3])

    accelerator = torch.accelerator.memory
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        ask(f"accelerator {name}", getattr(accelerator, name))
    ask("accelerator stats", lambda: accelerator.memory_stats() == torch.cuda.memory_stats())
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_cache()
    ask("accelerator emptied", figures)
    ask("accelerator info", lambda: accelerator.get_memory_info())
    del small


steps()
print(json.dumps(answers))
