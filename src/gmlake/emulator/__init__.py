"""The emulated device: the CUDA build of PyTorch runs on libraries of ours, without a GPU."""
