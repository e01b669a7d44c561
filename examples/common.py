"""What the examples train: a small language model, made-up texts, and the arguments for their sizes."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

VOCABULARY = 32000


class Block(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attend(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.second(x))


class LanguageModel(nn.Module):
    """From tokens to the loss of predicting each from those before it."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def texts(count: int, batch: int, longest: int) -> Iterator[torch.Tensor]:
    """Batches of texts, of another length each."""
    chance = random.Random(0)
    for number in range(count):
        shape = batch, chance.randint(longest // 4, longest)
        yield torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(number))


def sentences(count: int, longest: int) -> list[torch.Tensor]:
    """The same one by one, for a DataLoader that makes batches of them."""
    return [batch[0] for batch in texts(count, 1, longest)]


def padded(sentences: list[torch.Tensor]) -> torch.Tensor:
    """A batch as long as its longest text."""
    return pad_sequence(sentences, batch_first=True)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The sizes, which a test makes small."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8, help="texts in a step")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of the longest text")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    return parser
