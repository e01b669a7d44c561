"""Train with DeepSpeed: ZeRO-3, parameters and optimizer offloaded to the host.

gmlake compare --emulate a100-80g --world-size 8 -- python examples/zero3_offload.py     # as rank 0 of eight
gmlake run --emulate a100-80g --gpus 2 --allocator gmlake -- deepspeed --num_gpus 2 examples/zero3_offload.py
"""

from __future__ import annotations

import os

import deepspeed
import torch
from common import LanguageModel, arguments, texts

HOST = {"device": "cpu", "pin_memory": True}


def main() -> None:
    """Train for some steps."""
    parser = arguments(__doc__)
    parser.add_argument("--local_rank", type=int, help="set by the launcher")
    args = parser.parse_args()
    configuration = {
        "train_micro_batch_size_per_gpu": args.batch,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "offload_param": HOST, "offload_optimizer": HOST},
        "zero_force_ds_cpu_optimizer": False,  # PyTorch's own needs nothing to be compiled
        "steps_per_print": 10**9,
    }
    deepspeed.init_distributed()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    with deepspeed.zero.Init(config_dict_or_path=configuration):
        model = LanguageModel(args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration)
    for step, tokens in enumerate(texts(args.steps, args.batch * engine.world_size, args.longest), 1):
        loss = engine(tokens.chunk(engine.world_size)[engine.global_rank].cuda())
        engine.backward(loss)
        engine.step()
        if engine.global_rank == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
