"""Fine-tune a 7B model with LoRA: an ordinary script, written for a GPU.

It knows nothing of gmlake. `make demo` runs it on an emulated A100:

    gmlake run --emulate a100-80g --record lora.gmt -- python examples/lora.py
"""

from __future__ import annotations

import argparse
import random

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig


def main() -> None:
    """Train for some steps on made-up texts of varying length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=24, help="texts in a step")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of the longest text")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=4096)
    args = parser.parse_args()

    config = LlamaConfig(  # the size of Llama 2 7B
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 43 // 16,
        num_hidden_layers=args.layers,
        num_attention_heads=32,
        vocab_size=32000,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    model.print_trainable_parameters()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    chance = random.Random(0)
    model.train()
    for step in range(args.steps):
        batch = texts(chance, config.vocab_size, args.batch, args.longest)
        loss = model(**{name: tensor.cuda() for name, tensor in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            print(f"step {step + 1}: {batch['input_ids'].shape[1]} tokens, loss {loss.item():.3f}")


def texts(chance: random.Random, vocabulary: int, count: int, longest: int) -> dict[str, torch.Tensor]:
    """A batch of texts of similar length, padded to the longest of them."""
    about = min(1.0, max(0.05, chance.gauss(0.55, 0.25))) * longest
    lengths = torch.tensor([max(2, round(about * chance.uniform(0.8, 1))) for _ in range(count)])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    tokens = torch.randint(vocabulary, mask.shape, generator=torch.Generator().manual_seed(chance.randrange(2**31)))
    return {"input_ids": tokens, "attention_mask": mask.long(), "labels": tokens.masked_fill(~mask, -100)}


if __name__ == "__main__":
    main()
