"""What the documentation calls train.py: a few steps on the GPU, alone or as one of several processes."""

import os

import torch


def main() -> None:
    """Train a small network."""
    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)
    )
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    model.cuda()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        torch.distributed.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(12):
        optimizer.zero_grad()
        model(torch.zeros(64 + 32 * step, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
