"""Stand-ins for the libraries of NVIDIA that PyTorch imports, written from its imports, without a compiler."""

from gmlake.emulator.standins.cache import cache_folder, stand_ins
from gmlake.emulator.standins.pytorch import find_torch, torch_version

__all__ = ["cache_folder", "find_torch", "stand_ins", "torch_version"]
