"""The real PyTorch on the emulated device: its allocators, statistics, streams, graphs and training techniques."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.running import Emulated

BACKENDS = ("", "expandable_segments:True", "backend:cudaMallocAsync")

TRANSFORMER = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

class Layer(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))

class Model(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(1000, 256)
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.head = nn.Linear(256, 1000)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), tokens.flatten())

def batches(count=3):
    for length in range(64, 64 + 32 * count, 32):
        yield torch.randint(0, 1000, (4, length)).cuda()
"""


def check(emulated: Emulated, program: str, *options: object, **more: object) -> str:
    done = emulated(program, *options, **more)  # type: ignore[arg-type]
    assert done.status == 0, done.stderr
    assert "is not emulated" not in done.stderr
    return done.stdout


def test_the_card(emulated: Emulated) -> None:
    program = """
import torch
card = torch.cuda.get_device_properties(0)
assert card.name == "NVIDIA H100 80GB HBM3", card.name
assert (card.major, card.minor, card.multi_processor_count) == (9, 0, 132)
assert torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.device_count() == 2 and torch.cuda.is_bf16_supported()
assert torch.cuda.mem_get_info()[1] == card.total_memory == 85028896768
"""
    check(emulated, program, "--gpus", 2, device="h100-80g")


@pytest.mark.parametrize("conf", BACKENDS)
def test_statistics_after_a_scripted_sequence(emulated: Emulated, conf: str) -> None:
    program = """
import torch
M = 1 << 20
a = torch.empty(40 * M, dtype=torch.uint8, device="cuda")
b = torch.empty(512, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_allocated() == 40 * M + 512
del a
assert torch.cuda.memory_allocated() == 512
assert torch.cuda.max_memory_allocated() == 40 * M + 512
reserved = torch.cuda.memory_reserved()
assert reserved >= 40 * M + 512
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
try:
    torch.empty(200 * M, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    assert "200.00 MiB" in str(error)
else:
    raise AssertionError("the card has only 128 MiB")
c = torch.empty(90 * M, dtype=torch.uint8, device="cuda")
"""
    check(emulated, program, "--memory", "128MiB", env={"PYTORCH_ALLOC_CONF": conf})


@pytest.mark.parametrize("conf", BACKENDS)
def test_training(emulated: Emulated, conf: str) -> None:
    program = """
for recompute in (False, True):
    for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        model = Model(recompute).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        for tokens in batches():
            model(tokens).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        assert all(state["exp_avg"].is_cuda for state in optimizer.state.values())
"""
    check(emulated, TRANSFORMER + program, env={"PYTORCH_ALLOC_CONF": conf})


def test_recomputation_and_offloading_save_memory(emulated: Emulated) -> None:
    program = """
from contextlib import nullcontext
def peak(recompute, offload):
    model = Model(recompute).cuda()
    torch.cuda.reset_peak_memory_stats()
    for tokens in batches(2):
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if offload else nullcontext():
            loss = model(tokens)
        loss.backward()
    return torch.cuda.max_memory_allocated()
plain = peak(False, False)
assert peak(True, False) < plain
assert peak(False, True) < plain
"""
    check(emulated, TRANSFORMER + program)


def test_mixed_precision(emulated: Emulated) -> None:
    program = """
model, scaler = Model().cuda(), torch.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for dtype in (torch.float16, torch.bfloat16):
    for tokens in batches(2):
        with torch.autocast("cuda", dtype=dtype):
            loss = model(tokens)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    check(emulated, TRANSFORMER + program)


def test_data_loaders(emulated: Emulated) -> None:
    program = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    total = 0
    for start in ("fork", "spawn"):
        data = TensorDataset(torch.arange(400.0))
        for (x,) in DataLoader(data, 50, num_workers=2, pin_memory=True, multiprocessing_context=start):
            total += x.cuda(non_blocking=True).cpu().sum().item()
    assert total == 2 * 399 * 200, total
"""
    check(emulated, program)


def test_streams_defer_what_is_still_in_use(emulated: Emulated) -> None:
    program = """
import torch
M = 32 << 20
side = torch.cuda.Stream()
x = torch.empty(M, dtype=torch.uint8, device="cuda")
place = x.data_ptr()
with torch.cuda.stream(side):
    y = x + 1
x.record_stream(side)
del x
z = torch.empty(M, dtype=torch.uint8, device="cuda")
assert z.data_ptr() != place, "the side stream is still busy with it"
side.synchronize()
assert torch.empty(M, dtype=torch.uint8, device="cuda").data_ptr() == place
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
z.add_(1)
end.record()
assert not end.query()
end.synchronize()
assert 19 < begin.elapsed_time(end) < 21
"""
    check(emulated, program, "--kernel-us", 20000)


def test_graphs_have_their_own_pool(emulated: Emulated) -> None:
    program = """
import torch
model = torch.nn.Linear(256, 256).cuda()
x = torch.randn(64, 256, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(2):
        model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(first):
    out = model(x)
with torch.cuda.graph(second, pool=first.pool()):
    again = model(out)
for _ in range(3):
    first.replay()
    second.replay()
torch.cuda.synchronize()
pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
assert len(pools) == 2, pools
"""
    check(emulated, program)


def test_several_devices(emulated: Emulated) -> None:
    program = """
import torch
a = torch.arange(1000).to("cuda:0")
b = a.to("cuda:1")
assert b.device.index == 1 and torch.equal(b.cpu(), torch.arange(1000))
assert torch.cuda.can_device_access_peer(0, 1)
assert torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(1) == 8192
"""
    check(emulated, program, "--gpus", 2)


def test_tensors_shared_between_processes(emulated: Emulated, tmp_path: Path) -> None:
    program = """
import torch
import torch.multiprocessing as mp
def child(queue, answers):
    x = queue.get()
    answers.put((x.device.type, x.cpu().tolist()))
    del x
if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, answers))
    process.start()
    x = torch.arange(5).cuda()
    queue.put(x)
    assert answers.get() == ("cuda", [0, 1, 2, 3, 4])
    process.join()
    assert process.exitcode == 0
"""
    script = tmp_path / "share.py"  # the child imports it
    script.write_text(program)
    done = emulated(script)
    assert done.status == 0, done.stderr


def test_fresh_memory_reads_as_zero(emulated: Emulated) -> None:
    program = """
import torch
for round in range(3):
    x = torch.full((1000,), 7, dtype=torch.int32).cuda()
    assert x.cpu().eq(7).all()
    del x
    assert torch.empty(1000, dtype=torch.int32, device="cuda").cpu().eq(0).all()
"""
    check(emulated, program)


def test_compiling(emulated: Emulated) -> None:
    """As far as it goes: every backend runs, kernels are compiled for the card, and do nothing."""
    program = """
import torch
def step(x, y):
    return torch.nn.functional.gelu(x @ y + 1).sum()
x = torch.randn(64, 64, device="cuda", requires_grad=True)
y = torch.randn(64, 64, device="cuda")
for options in ({"backend": "aot_eager"}, {}, {"mode": "reduce-overhead"}):
    torch._dynamo.reset()
    compiled = torch.compile(step, **options)
    for _ in range(3):
        compiled(x, y).backward()
"""
    pytest.importorskip("triton")
    check(emulated, program)


def test_a_model_of_seven_billion_parameters(emulated: Emulated) -> None:
    """In less than 1 GB of this machine, and about a second a step even when it is busy."""
    program = """
import time, torch
from torch import nn
width = 4096
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        x = x + self.out(self.mix(self.norm(x)))
        return x + self.down(nn.functional.gelu(self.up(x)))
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = nn.Sequential(*(Layer() for _ in range(28)))
assert sum(p.numel() for p in model.parameters()) > 6.5e9
optimizer = torch.optim.AdamW(model.parameters())
times = []
for _ in range(4):
    begin = time.process_time()
    model(torch.randn(2, 512, width, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.process_time() - begin)
assert min(times) < 1, times
"""
    done = emulated(program)
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    assert process["host_peak"] < 1 << 30
    assert done.device["peak_reserved"] > 60 << 30


def test_a_card_that_pytorch_has_no_code_of_its_own_for(emulated: Emulated) -> None:
    """Sorts, scans and selections ask which code runs: on 8.9 that for 8.6 does, and there is none for 8.9."""
    program = """
import torch
assert "sm_89" not in torch.cuda.get_arch_list() and "sm_86" in torch.cuda.get_arch_list()
x = torch.randn(1 << 18, device="cuda")
x.sort(), x.cumsum(0), x.topk(5), x.nonzero(), x.long().unique()
print(torch.cuda.get_device_capability())
"""
    done = emulated(program, device="rtx4090-24g")
    assert done.stdout == "(8, 9)\n", done.stderr
