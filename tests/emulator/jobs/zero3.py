"""An ordinary DeepSpeed script: ZeRO-3, in bfloat16, with everything offloaded if asked. Started by test_deepspeed."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import deepspeed
import torch
from torch import nn

WIDTH, LAYERS = 512, 4


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(x)))


def main() -> None:
    zero: dict[str, Any] = {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_bucket_size": 2_000_000,
        "stage3_prefetch_bucket_size": 2_000_000,
        "stage3_param_persistence_threshold": 0,
    }
    if "offload" in sys.argv:
        zero |= {part: {"device": "cpu", "pin_memory": True} for part in ("offload_optimizer", "offload_param")}
    configuration = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
    }
    deepspeed.init_distributed()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with deepspeed.zero.Init(config_dict_or_path=configuration):
        model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    weights = torch.cuda.memory_allocated()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration)
    for _ in range(3):
        output = engine(torch.zeros(4, WIDTH, dtype=torch.bfloat16, device="cuda"))
        engine.backward(output.float().square().mean())
        engine.step()
    found = {
        "parameters": sum(parameter.ds_numel for parameter in model.parameters()),
        "weights": weights,
        "allocated": torch.cuda.memory_allocated(),
        "peak": torch.cuda.max_memory_allocated(),
        "steps": engine.global_steps,
        "skipped": engine.skipped_steps,
        "world": engine.world_size,
    }
    print(json.dumps(found))
    torch.distributed.destroy_process_group()


main()
