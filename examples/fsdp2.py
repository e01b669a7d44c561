"""Train a sharded model: FSDP2 with activation checkpointing, on as many GPUs as there are processes.

gmlake compare --emulate a100-80g --gpus 2 -- torchrun --nproc-per-node 2 examples/fsdp2.py
gmlake compare --emulate a100-80g --world-size 8 -- python examples/fsdp2.py     # one process as rank 0 of eight
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from common import Block, LanguageModel, arguments, texts
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main() -> None:
    """Train for some steps."""
    args = arguments(__doc__).parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    model = LanguageModel(args.width, args.layers)
    apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, tokens in enumerate(texts(args.steps, args.batch * dist.get_world_size(), args.longest), 1):
        loss = model(tokens.chunk(dist.get_world_size())[dist.get_rank()].cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
