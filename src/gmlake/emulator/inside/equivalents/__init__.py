"""What the CPU computes where it has no such operator, or where its own would not give what a CPU run gives.

PyTorch chooses among operators by device: dropout, attention, normalisation and recurrent cells are one fused operator
on CUDA and something else on the CPU. An equivalent takes the arguments of CUDA's operator as CPU tensors and computes
what the CPU's path would have computed, so that results agree bit for bit. None stands for a result that the CPU does
not have and nobody reads.
"""

from __future__ import annotations

from gmlake.emulator.inside.equivalents import (
    attention,
    convolution,
    dropout,
    lookup,
    normalisation,
    products,
    recurrent,
    sampling,
    softmax,
    synchronised,
)
from gmlake.emulator.inside.equivalents.table import EQUIVALENTS, Equivalent

__all__ = [
    "EQUIVALENTS",
    "Equivalent",
    "attention",
    "convolution",
    "dropout",
    "lookup",
    "normalisation",
    "products",
    "recurrent",
    "sampling",
    "softmax",
    "synchronised",
]
