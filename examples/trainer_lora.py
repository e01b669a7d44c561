"""Fine-tune with Hugging Face's Trainer: LoRA and gradient checkpointing.

gmlake compare --emulate a100-80g -- python examples/trainer_lora.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from common import VOCABULARY, arguments, padded, sentences
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments


def main() -> None:
    """Train for some steps."""
    args = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=args.width,
        intermediate_size=args.width * 43 // 16,
        num_hidden_layers=args.layers,
        num_attention_heads=max(1, args.width // 64),
        use_cache=False,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.enable_input_require_grads()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch,
                max_steps=args.steps,
                bf16=True,
                gradient_checkpointing=True,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=sentences(args.steps * args.batch, args.longest),
            data_collator=collated,
        )
        trainer.train()
    for step, entry in enumerate(trainer.state.log_history[:-1], 1):
        print(f"step {step}: loss {entry['loss']}")


def collated(rows: list[torch.Tensor]) -> dict[str, Any]:
    """A batch as the model expects it."""
    tokens = padded(rows)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    return {"input_ids": tokens, "attention_mask": mask.long(), "labels": tokens.masked_fill(~mask, -100)}


if __name__ == "__main__":
    main()
