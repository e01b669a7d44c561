"""Say what works on this machine, and what to do about the rest.

Looks at GMLake's own library, the NVIDIA driver and its devices, and PyTorch
(without importing it). What is merely missing is fine: replay needs neither a
GPU nor PyTorch.

examples:
  gmlake doctor
  gmlake doctor --json

exit status: 0 unless something that is here is broken.
"""
