"""Models and techniques of training; see computed.py."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tests.emulator.computed import Results, program, train


class Block(nn.Module):  # type: ignore[misc]
    """A transformer's block; attention is composed, or PyTorch's."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, composed: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.composed = heads, dropout, composed
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = (each.view(n, t, self.heads, -1).transpose(1, 2) for each in self.qkv(x).split(c, 2))
        if self.composed:
            scores = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            weights = functional.dropout(scores.masked_fill(~mask, float("-inf")).softmax(-1), self.dropout)
            y = weights @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + functional.dropout(self.attention(self.first(x)), self.dropout)
        return x + self.mlp(self.second(x))


class Language(nn.Module):  # type: ignore[misc]
    """A small language model."""

    def __init__(self, recompute: bool | None = None, width: int = 32, **options: Any) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens, self.places = nn.Embedding(50, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width, 4, **options) for _ in range(2))
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return self.head(x)


def predict(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())


def texts(device: str) -> list[torch.Tensor]:
    return [torch.randint(0, 50, (4, 17)).to(device) for _ in range(4)]


def language(device: str, **options: Any) -> Results:
    dtype = options.pop("dtype", torch.float32)
    model = Language(**options).to(device, dtype)
    return train(model, texts(device), predict)


@program
def composed_attention(device: str) -> Results:
    return language(device, composed=True)


@program
def composed_attention_with_dropout(device: str) -> Results:
    return language(device, composed=True, dropout=0.1)


@program
def fused_attention(device: str) -> Results:
    return language(device)


@program
def fused_attention_in_half_precision(device: str) -> Results:
    return language(device, dtype=torch.bfloat16)


@program
def fused_attention_with_dropout(device: str) -> Results:
    return language(device, dropout=0.1)


@program
def fused_attention_with_padded_heads(device: str) -> Results:
    return language(device, width=20, dtype=torch.bfloat16)


@program
def attention_by_formula(device: str) -> Results:
    with sdpa_kernel(SDPBackend.MATH):
        return language(device)


@program
def recomputation(device: str) -> Results:
    return language(device, recompute=False, dropout=0.1)


@program
def reentrant_recomputation(device: str) -> Results:
    model = Language(recompute=True, dropout=0.1, composed=True).to(device)
    return train(model, texts(device), lambda model, batch: predict(model, batch))


@program
def recomputation_of_fused_attention_with_dropout(device: str) -> Results:
    return language(device, recompute=False, dropout=0.2)


@program
def activations_on_the_host(device: str) -> Results:
    model = Language().to(device)
    keep = torch.autograd.graph.save_on_cpu(pin_memory=True) if device == "cuda" else contextlib.nullcontext()
    with keep:
        return train(model, texts(device), predict)


@program
def attention_with_masks(device: str) -> Results:
    q, k, v = (torch.randn(2, 4, 9, 16).to(device).requires_grad_() for _ in range(3))
    bias = torch.randn(1, 4, 9, 9).to(device).requires_grad_()
    mask = (torch.rand(2, 1, 9, 9) > 0.3).to(device)
    mask[..., 0] = True
    found: Results = []
    for each in (mask, bias, bias.detach()):
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=each)
        wanted = [q, k, v, *([each] if each.requires_grad else [])]
        found += [out, *torch.autograd.grad(out.square().sum(), wanted)]
    return found


@program
def attention_by_kernels_that_the_cpu_has_not(device: str) -> Results:
    q, k, v = (torch.randn(1, 2, 64, 64, dtype=torch.bfloat16).to(device).requires_grad_() for _ in range(3))
    found: Results = []
    for kernel in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(kernel) if device == "cuda" else contextlib.nullcontext():
            out = functional.scaled_dot_product_attention(q, k, v)
            with torch.no_grad():
                quiet = functional.scaled_dot_product_attention(q, k, v)
        found += [out, quiet, *torch.autograd.grad(out.float().square().sum(), (q, k, v))]
    return found


@program
def attention_with_grouped_queries(device: str) -> Results:
    q = torch.randn(2, 8, 9, 16, dtype=torch.bfloat16).to(device).requires_grad_()
    k, v = (torch.randn(2, 2, 9, 16, dtype=torch.bfloat16).to(device).requires_grad_() for _ in range(2))
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return [out, *torch.autograd.grad(out.float().square().sum(), (q, k, v))]


def classify(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def images(device: str, size: int = 8) -> list[Any]:
    return [(torch.randn(6, 3, size, size).to(device), torch.randint(0, 5, (6,)).to(device)) for _ in range(4)]


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, groups=4, bias=False), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 5),
    )  # fmt: skip


@program
def convolutions(device: str) -> Results:
    model = convolutional().to(device)
    found = train(model, images(device), classify)
    return [*found, model.eval()(images(device)[0][0])]


@program
def convolutions_channels_last(device: str) -> Results:
    model = convolutional().to(device, memory_format=torch.channels_last)
    batches = [(x.to(memory_format=torch.channels_last), y) for x, y in images(device)]
    return train(model, batches, classify)


@program
def convolutions_of_other_kinds(device: str) -> Results:
    found: Results = []
    for kind, shape in (
        (nn.Conv1d(4, 6, 3, dilation=2), (2, 4, 12)),
        (nn.Conv3d(2, 4, 3, padding=1), (2, 2, 5, 5, 5)),
        (nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
        (nn.Conv2d(6, 6, 3, groups=6, padding=1), (2, 6, 7, 7)),
    ):
        x = torch.randn(shape).to(device).requires_grad_()
        out = kind.to(device)(x)
        found += [out, *torch.autograd.grad(out.square().sum(), [x, *kind.parameters()])]
        found.append(kind(x.detach()).detach())
    return found


@program
def depthwise_convolution_without_gradients(device: str) -> Results:
    with torch.no_grad():
        return [nn.Conv2d(8, 8, 3, groups=8, padding=1).to(device)(torch.randn(2, 8, 9, 9).to(device))]


def recurrent(kind: Any, device: str, **options: Any) -> Results:
    model = nn.ModuleDict({"rnn": kind(6, 8, num_layers=2, **options), "head": nn.LazyLinear(3)}).to(device)

    def loss(model: Any, batch: torch.Tensor) -> torch.Tensor:
        return model["head"](model["rnn"](batch)[0]).square().mean()

    return train(model, [torch.randn(5, 4, 6).to(device) for _ in range(3)], loss)


@program
def lstm(device: str) -> Results:
    return recurrent(nn.LSTM, device, batch_first=True)


@program
def lstm_with_dropout(device: str) -> Results:
    if device == "cuda":
        # The first time after seeding, PyTorch seeds cuDNN's own generator with a random number; no CPU run draws it.
        state = torch.get_rng_state()
        nn.LSTM(2, 2, num_layers=2, dropout=0.3).cuda()(torch.ones(1, 1, 2, device="cuda"))
        torch.set_rng_state(state)
    return recurrent(nn.LSTM, device, dropout=0.3, bidirectional=True)


@program
def lstm_with_projection(device: str) -> Results:
    return recurrent(nn.LSTM, device, proj_size=4)


@program
def gru(device: str) -> Results:
    return recurrent(nn.GRU, device, bias=False)


@program
def plain_recurrence_of_packed_sequences(device: str) -> Results:
    rnn = nn.RNN(6, 8).to(device)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 6).to(device), [5, 4, 2])
    out, hidden = rnn(packed)
    return [out.data, hidden, *torch.autograd.grad(out.data.square().sum(), list(rnn.parameters()))]
