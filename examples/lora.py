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
    """Train for some steps on made-up text of varying length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--longest", type=int, default=1024, help="tokens of the longest text")
    args = parser.parse_args()

    config = LlamaConfig(  # the size of Llama 2 7B
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
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
        length = min(args.longest, max(32, round(chance.gauss(0.55, 0.25) * args.longest)))
        tokens = torch.randint(config.vocab_size, (args.batch, length), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            print(f"step {step + 1}: {length} tokens, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
