"""Train with accelerate, which looks for a batch that fits: after running out of memory it tries a smaller one.

    gmlake compare --emulate a100-80g -- python examples/accelerate_loop.py
    gmlake run --emulate a100-80g --gpus 2 --allocator gmlake -- accelerate launch --num_processes 2 --multi_gpu \\
        examples/accelerate_loop.py
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from common import LanguageModel, arguments, padded, sentences
from torch.utils.data import DataLoader


def main() -> None:
    """Train for some steps."""
    args = arguments(__doc__).parse_args()
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)

    @find_executable_batch_size(starting_batch_size=args.batch)
    def train(batch: int) -> None:
        accelerator.free_memory()
        accelerator.print(f"batch of {batch}")
        torch.manual_seed(0)
        model = LanguageModel(args.width, args.layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        count = args.steps * batch * accelerator.num_processes
        data = DataLoader(sentences(count, args.longest), batch, collate_fn=padded)
        model, optimizer, data = accelerator.prepare(model, optimizer, data)
        for step, tokens in enumerate(data, 1):
            with accelerator.accumulate(model):
                loss = model(tokens)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            accelerator.print(f"step {step}: loss {loss.item():.6f}")

    train()
    accelerator.end_training()


if __name__ == "__main__":
    main()
