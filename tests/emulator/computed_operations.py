"""Optimizers, operators that look at data, random numbers, graphs, threads and transforms; see computed.py."""

from __future__ import annotations

import contextlib
import copy
import threading
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.emulator.computed import Results, program, train


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def points(device: str, count: int = 4) -> list[Any]:
    return [(torch.randn(12, 10).to(device), torch.randn(12, 3).to(device)) for _ in range(count)]


def distance(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return functional.mse_loss(model(batch[0]), batch[1])


def optimized(device: str, kind: Any, **options: Any) -> Results:
    model = perceptron().to(device)
    return train(model, points(device), distance, kind(model.parameters(), lr=1e-2, **options))


@program
def adamw(device: str) -> Results:
    return optimized(device, torch.optim.AdamW)


@program
def adamw_one_by_one(device: str) -> Results:
    return optimized(device, torch.optim.AdamW, foreach=False)


@program
def adamw_foreach(device: str) -> Results:
    return optimized(device, torch.optim.AdamW, foreach=True, amsgrad=True)


@program
def adamw_fused(device: str) -> Results:
    return optimized(device, torch.optim.AdamW, fused=True)


@program
def adam_fused_amsgrad(device: str) -> Results:
    return optimized(device, torch.optim.Adam, fused=True, amsgrad=True, weight_decay=0.1)


@program
def sgd(device: str) -> Results:
    return optimized(device, torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=1e-2)


@program
def sgd_fused(device: str) -> Results:
    return optimized(device, torch.optim.SGD, momentum=0.9, fused=True)


@program
def other_optimizers(device: str) -> Results:
    # NAdam computes in another order for lists of tensors, which is the default on CUDA only.
    kinds = (torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.NAdam, torch.optim.Adamax)
    return [value for kind in kinds for value in optimized(device, kind, foreach=True)]


@program
def lora(device: str) -> Results:
    """A frozen layer and a trained correction of low rank."""

    class Adapted(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(10, 3).requires_grad_(False)
            self.down, self.up = nn.Parameter(torch.randn(2, 10)), nn.Parameter(torch.zeros(3, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + (functional.dropout(x, 0.2) @ self.down.t()) @ self.up.t() * 2.0

    return train(Adapted().to(device), points(device), distance)


@program
def mixture_of_experts(device: str) -> Results:
    """Every token goes to two of four experts; how many each gets depends on the data."""

    class Experts(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(10, 4)
            self.experts = nn.ModuleList(nn.Linear(10, 3) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights, chosen = self.gate(x).softmax(-1).topk(2)
            out = x.new_zeros(len(x), 3)
            for index, expert in enumerate(self.experts):
                token, rank = torch.where(chosen == index)
                if token.numel():
                    out.index_add_(0, token, expert(x[token]) * weights[token, rank, None])
            return out

    return train(Experts().to(device), points(device), distance)


@program
def autocast(device: str) -> Results:
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            out = model(batch[0])
        return functional.mse_loss(out.float(), batch[1])

    return train(model, points(device), loss)


@program
def scaled_gradients(device: str) -> Results:
    model = nn.Linear(10, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**40, growth_interval=2)
    found: Results = []
    for x, y in points(device, 30):
        with torch.autocast(device, dtype=torch.float16):
            out = model(x)
        value = functional.mse_loss(out.float(), y)
        optimizer.zero_grad()
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        found += [value.item(), scaler.get_scale()]
    return [*found, model.weight.detach()]


@program
def bags_of_embeddings(device: str) -> Results:
    indices = torch.randint(0, 9, (20,)).to(device)
    offsets = torch.tensor([0, 3, 3, 11]).to(device)
    found: Results = []
    for mode in ("sum", "mean", "max"):
        for options in ({}, {"padding_idx": 4}, {"scale_grad_by_freq": mode != "max"}):
            bag = nn.EmbeddingBag(9, 5, mode=mode, **options).to(device)
            out = bag(indices, offsets)
            out.square().sum().backward()
            found += [out, bag.weight.grad]
    weights = torch.rand(20).to(device).requires_grad_()
    out = nn.EmbeddingBag(9, 5, mode="sum").to(device)(indices, offsets, weights)
    return [*found, out, *torch.autograd.grad(out.sum(), weights)]


@program
def embedding_of_many(device: str) -> Results:
    layer = nn.Embedding(7, 4, padding_idx=2, scale_grad_by_freq=True).to(device)
    layer(torch.randint(0, 7, (50, 100)).to(device)).square().sum().backward()
    return [layer.weight.grad]


@program
def indexing(device: str) -> Results:
    x = torch.randn(6, 7, 5).to(device)
    mask = x > 0.3
    rows = torch.tensor([4, 0, 4]).to(device)
    found: Results = [x[mask], x[rows], x[mask.any(-1)], x[:, rows, None], x.nonzero(), torch.nonzero(x, as_tuple=True)]
    found += [x.masked_select(mask), torch.where(mask, x, 2), torch.where(mask), x.take(rows), x.gather(1, mask.long())]
    x[mask] = 1.5
    x[rows, 1] += 2
    x.index_put_((rows, rows), torch.ones(3, 5).to(device), accumulate=True)
    x.masked_fill_(mask, 3).index_fill_(0, rows, 4).scatter_add_(0, mask.long(), x.clone())
    y = torch.randint(0, 6, (30,)).to(device)
    found += [x, *y.unique(return_inverse=True, return_counts=True), y.bincount(), y.unique_consecutive()]
    found += [y.repeat_interleave(y), *torch.sort(y, descending=True, stable=True), x.histc(4)]
    found += [*x.topk(3), x.argsort(1), *x.kthvalue(2), x.median(), *x.mode(), x.cumsum(0), x.flip(0), x.roll(2, 1)]
    found += [torch.equal(x, x), bool(mask.any()), x.tolist(), int(mask.sum()), torch.allclose(x, x + 1e-9)]
    found += [*torch.unique(x.round(), dim=1, return_counts=True), torch.combinations(y[:5]), torch.tril_indices(3, 4)]
    return [each for part in found for each in (part if isinstance(part, tuple) else (part,))]


@program
def views_and_changes_in_place(device: str) -> Results:
    x = torch.randn(4, 6).to(device)
    x[1:, ::2].mul_(2).add_(1)
    x.t()[2].copy_(torch.arange(4))
    x.view(2, 12).select(0, 1).zero_()
    x.diagonal().fill_(7)
    y = x.expand(3, 4, 6).permute(2, 0, 1).contiguous()
    y.add_(x.sum(), alpha=0.5).clamp_(-1, 20).pow_(2).sub_(3).div_(7).abs_().sqrt_()
    y[0] = 2.0 ** x[0, 0]
    z = torch.randn(4, 6, dtype=torch.complex64).to(device)
    out = torch.empty(0, device=device)
    torch.add(x, 1, out=out)
    torch.cat((x, y[0].new_ones(3, 6)), out=out)
    half = x.half().t().to(torch.int16).contiguous()
    return [x, y, (z.conj() @ z.t()).imag, torch.view_as_real(z.conj().resolve_conj()), out, half, x.to("cpu").double()]


@program
def numbers_and_types(device: str) -> Results:
    i = torch.arange(6).to(device)
    h = torch.tensor(2.0, dtype=torch.float16).to(device)
    return [
        i * 2.5,
        i / 2,
        i**2,
        2**i,
        i // 2,
        7 % (i + 1),
        h * 3,
        i + True,
        i.float() * torch.tensor(3.0),
        1 / h,
        i > 2.5,
    ]


@program
def outer_products(device: str) -> Results:
    """PyTorch has a kernel in Triton for batches of them, which it puts in place at the end of its import."""
    a, b = torch.randn(2, 3, 1).to(device), torch.randn(2, 1, 4).to(device)
    return [torch.bmm(a, b), a @ b]


@program
def softmax_of_half_precision_in_float(device: str) -> Results:
    found: Results = []
    for function in (torch.softmax, torch.log_softmax):
        x = torch.randn(8, 10).half().to(device).detach().requires_grad_()
        y = function(x, 1, dtype=torch.float32)
        out = torch.empty(8, 10, device=device)
        found += [y, *torch.autograd.grad(y.square().sum(), x), function(x.detach(), 1, dtype=torch.float32, out=out)]
    return found


@program
def fake_quantisation(device: str) -> Results:
    """Looks whether the zero points are in range, in memory that held other numbers before."""
    x, scale = torch.randn(8, 32).to(device), torch.full((8,), 0.1).to(device)
    zero, bounds = torch.zeros(8, dtype=torch.int32).to(device), (-128, 127)
    found: Results = []
    for function, qparams in (
        (torch.fake_quantize_per_channel_affine, (scale, zero, 0)),
        (torch._fake_quantize_learnable_per_channel_affine, (scale, zero.float(), 0)),
        (torch.fake_quantize_per_tensor_affine, (scale[:1], zero[:1])),
    ):
        torch.full((1000,), 10**9, device=device)
        found.append(function(x, *qparams, *bounds))
    return found


@program
def random_numbers(device: str) -> Results:
    found: Results = [torch.randn(7).to(device), torch.rand(3, 4, device=device), torch.randn(5, device=device)]
    found += [torch.randint(0, 9, (5,), device=device), torch.randperm(11, device=device)]
    p = torch.rand(4, 6, device=device)
    found += [p.bernoulli(), torch.multinomial(p, 3), torch.multinomial(p, 20, replacement=True), torch.poisson(p * 5)]
    found += [
        torch.normal(p, 2.0),
        torch.empty(5, device=device).exponential_(),
        torch.empty(5, device=device).cauchy_(),
    ]
    found += [functional.dropout(p, 0.4), functional.dropout2d(p[None], 0.5), functional.alpha_dropout(p, 0.2)]
    found += [functional.rrelu(p - 0.5, training=True), functional.gumbel_softmax(p), torch._standard_gamma(p)]
    found.append(torch.distributions.Dirichlet(p + 1).sample())
    return [*found, torch.get_rng_state()]


@program
def random_numbers_of_a_generator(device: str) -> Results:
    generator = torch.Generator(device).manual_seed(3)
    found: Results = [torch.rand(4, device=device, generator=generator), torch.rand(2, device=device)]
    state = generator.get_state()
    found.append(torch.randn(5, device=device, generator=generator))
    generator.set_state(state)
    found.append(torch.randn(5, device=device, generator=generator))
    generator.manual_seed(3)
    return [*found, torch.randperm(9, device=device, generator=generator), torch.rand(3, device=device)]


@program
def captured_graph(device: str) -> Results:
    """Captured with other data, replayed for every batch; the CPU does the same eagerly."""
    model = perceptron().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = points(device, 1)[0]
    batches = [(a.to(device), b.to(device)) for a, b in points("cpu", 4)]
    before = copy.deepcopy(model.state_dict())

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        value = distance(model, (x, y))
        value.backward()
        optimizer.step()
        return value

    if device == "cuda":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        model.load_state_dict(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = step()
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    torch.manual_seed(11)
    found: Results = []
    for each in batches:
        x.copy_(each[0])
        y.copy_(each[1])
        if device == "cuda":
            graph.replay()
        else:
            value = step()
        found.append(value.item())
    return [*found, *model.state_dict().values()]


@program
def backward_in_threads(device: str) -> Results:
    models = [nn.Linear(10, 3).to(device) for _ in range(3)]
    batches = points(device, 3)

    def work(model: nn.Module, batch: Any) -> None:
        for _ in range(5):
            distance(model, batch).backward()

    threads = [threading.Thread(target=work, args=each) for each in zip(models, batches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [parameter.grad for model in models for parameter in model.parameters()]


@program
def second_derivatives_and_transforms(device: str) -> Results:
    x = torch.randn(4, 3).to(device).requires_grad_()
    [first] = torch.autograd.grad(x.sin().mul(x).sum(), x, create_graph=True)
    [second] = torch.autograd.grad(first.square().sum(), x)

    def value(row: torch.Tensor) -> torch.Tensor:
        return (row.exp() * row).sum()

    rows = x.detach()
    found = [
        torch.func.vmap(torch.func.grad(value))(rows),
        torch.func.jacrev(value)(rows),
        torch.func.hessian(value)(rows[0]),
    ]
    return [first, second, *found]


@program
def default_device(device: str) -> Results:
    with torch.device(device):
        model = perceptron()
        x = torch.randn(4, 10)
        out = model(x)
    with torch.inference_mode():
        quiet = model.eval()(x)
    return [x, out, quiet, *model.parameters(), repr(quiet).split(", device")[0].rstrip(")")]


@program
def compiled_ahead(device: str) -> Results:
    model = torch.compile(nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 3)).to(device), backend="aot_eager")
    return train(model, points(device, 2), distance)


@program
def copies(device: str) -> Results:
    x = torch.randn(5, 6)
    pinned = x.pin_memory() if device == "cuda" else x
    there = pinned.to(device, non_blocking=True)
    back = torch.empty(6, 5, dtype=torch.float64)
    back.t().copy_(there)
    side = contextlib.nullcontext() if device == "cpu" else torch.cuda.stream(torch.cuda.Stream())
    with side:
        moved = there.t().clone()
    rows = list(torch.utils.data.DataLoader(torch.arange(12), 4, shuffle=True, pin_memory=device == "cuda"))
    return [there, back, moved, there.numpy(force=True).tolist(), *(row.to(device) for row in rows)]
