"""GMLake: a GPU memory allocator that stitches scattered memory, and the tools to see what it saves."""

from importlib.metadata import version

__version__ = version("gmlake")
