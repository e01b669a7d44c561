"""What --hazards says of programs on several devices, of which the first is current all the time."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.emulator.running import Emulated

ORDERED = {
    "there and back": """
        x = torch.zeros(1 << 20, device="cuda:1")
        y = x.to("cuda:0")
        x.copy_(y)
        x.add_(1)
        y.add_(1)
        x.cpu()
    """,
    "converted and rearranged": """
        x, y = (torch.zeros(1024, 1024, device=device) for device in (1, 0))
        x.add_(1)
        y.copy_(x.t())
        half = x.to("cuda:0", torch.float16)
        x.add_(1)
        x.t().copy_(y)
        x.copy_(half)
        for each in (x, y, half):
            each.add_(1)
    """,
    "a third stream that waits for the destination's": """
        x = torch.zeros(1024, 1024, device="cuda:1")
        side = torch.cuda.Stream(1)
        side.wait_stream(torch.cuda.current_stream(1))
        copies = x.to("cuda:0"), x.to("cuda:0", torch.float16)
        side.wait_stream(torch.cuda.current_stream(0))
        with torch.cuda.stream(side):
            x.add_(1)
    """,
    "the host waits for a copy": """
        x, side = torch.zeros(1 << 20, device="cuda:1"), torch.cuda.Stream(1)
        x.copy_(torch.ones(1 << 20))
        with torch.cuda.stream(side):
            x.add_(1)
        x = torch.zeros_like(x)
        x.cpu()
        with torch.cuda.stream(side):
            x.add_(1)
    """,
    "stages on two devices": """
        first, second = torch.nn.Linear(512, 512, device="cuda:0"), torch.nn.Linear(512, 512, device="cuda:1")
        parameters = [*first.parameters(), *second.parameters()]
        optimizer = torch.optim.AdamW(parameters)
        side = torch.cuda.Stream(1)
        for _ in range(2):
            side.wait_stream(torch.cuda.current_stream(1))
            hidden = first(torch.randn(64, 512, device="cuda:0"))
            with torch.cuda.stream(side):
                loss = second(hidden.to("cuda:1")).square().mean()
            torch.cuda.current_stream(1).wait_stream(side)
            loss.to("cuda:0").backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize(1)
    """,
    "collectives": """
        replicas = torch.nn.DataParallel(torch.nn.Linear(512, 512).cuda())
        replicas(torch.randn(64, 512, device="cuda")).sum().backward()
        tensors = [torch.ones(1 << 20, device=device) for device in range(2)]
        for _ in range(2):
            torch.cuda.nccl.all_reduce(tensors)
            for each in tensors:
                each.add_(1)
    """,
}

# The second device's default stream does not wait for this one.
SIDE = """
    x, y = (torch.zeros(1024, 1024, device=device) for device in (1, 0))
    for device in range(2):
        torch.cuda.synchronize(device)
    side = torch.cuda.Stream(1)
    with torch.cuda.stream(side):
        x.add_(1)
"""
UNORDERED = {
    "work": SIDE + "    x.mul_(2)",
    "a copy": SIDE + "    y.copy_(x)",
    "a copy that converts": SIDE + "    x.to('cuda:0', torch.float16)",
    "a copy there": SIDE + "    x.copy_(y)",
    "a collective": SIDE + "    torch.cuda.nccl.all_reduce([y, x])",
    "an event of the first device": """
        x, side = torch.zeros(1 << 20, device="cuda:1"), torch.cuda.Stream(1)
        side.wait_stream(torch.cuda.current_stream(0))
        with torch.cuda.stream(side):
            x.add_(1)
    """,
    "another stream of the destination": """
        x, y = (torch.zeros(1024, 1024, device=device) for device in (1, 0))
        for device in range(2):
            torch.cuda.synchronize(device)
        y.copy_(x.t())
        with torch.cuda.stream(torch.cuda.Stream(0)):
            y.add_(1)
    """,
    "what autograd left on the default stream": """
        layer, side = torch.nn.Linear(512, 512, device="cuda:1"), torch.cuda.Stream(1)
        layer(torch.randn(64, 512, device="cuda:1")).sum().backward()
        with torch.cuda.stream(side):
            layer.weight.grad.add_(1)
    """,
}

# Runs each program, from the same state, and counts.
COUNTING = """
import ctypes, json, sys, torch, torch.cuda.nccl
found, device = {}, ctypes.CDLL(None)
for name, program in json.loads(sys.argv[1]).items():
    before = device.gmlake_device_hazards()
    exec(program, {"torch": torch})
    found[name] = device.gmlake_device_hazards() - before
    for number in range(2):
        torch.cuda.synchronize(number)
    assert torch.cuda.current_device() == 0
print(json.dumps(found))
"""


# Cards that reach each other copy in one step, others by way of temporary tensors; with --compute the copy is redone.
@pytest.fixture(
    scope="module",
    params=[("a100-80g",), ("rtx4090-24g",), ("a100-80g", "--compute"), ("rtx4090-24g", "--compute")],
    ids=" ".join,
)
def found(emulated: Emulated, request: pytest.FixtureRequest) -> dict[str, int]:
    """How many hazards there are in each program."""
    device, *options = request.param
    programs = {name: textwrap.dedent(program) for name, program in (ORDERED | UNORDERED).items()}
    done = emulated(COUNTING, "--gpus", "2", "--hazards", *options, device=device, arguments=(json.dumps(programs),))
    assert done.status == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered(found: dict[str, int], name: str) -> None:
    assert found[name] == 0


@pytest.mark.parametrize("name", UNORDERED)
def test_what_is_not(found: dict[str, int], name: str) -> None:
    assert found[name] > 0


@pytest.mark.parametrize(("times", "told"), [(1, "1 time (each is"), (10, "10 times (each is"), (2000, "the first")])
def test_how_many_are_told(emulated: Emulated, times: int, told: str) -> None:
    program = f"""
import torch
x, side = torch.zeros(1 << 10, device="cuda"), torch.cuda.Stream()
for _ in range({times}):
    x.add_(1)
    with torch.cuda.stream(side):
        x.cpu()
    torch.cuda.synchronize()
"""
    shown = emulated(program, "--hazards", json_report=False).stderr
    [line] = [line for line in shown.splitlines() if "nothing to order them" in line]
    assert told in line
    assert shown.count("gmlake device: hazard: ") == min(times, 10)
