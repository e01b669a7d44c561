"""Stand-ins for the libraries of NVIDIA that PyTorch imports, written from its imports, without a compiler."""

from gmlake.emulator.standins.cache import stand_ins
from gmlake.emulator.standins.pytorch import find_torch, torch_version

__all__ = ["find_torch", "stand_ins", "torch_version"]
