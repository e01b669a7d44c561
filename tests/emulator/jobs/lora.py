"""An ordinary fine-tuning with Hugging Face's Trainer: LoRA and checkpointing on one device, or FSDP2 on four.

Started by test_hugging_face.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainerCallback, TrainingArguments

STEPS, BATCH = 4, 2


class Sentences(torch.utils.data.Dataset):  # type: ignore[misc]
    """Random tokens, of another length in every batch."""

    def __len__(self) -> int:
        return STEPS * BATCH * 4

    def __getitem__(self, number: int) -> dict[str, Any]:
        ids = torch.randint(0, 1000, (32 + 16 * (number // BATCH % 3),))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def together(sentences: list[dict[str, Any]]) -> dict[str, Any]:
    length = max(len(sentence["input_ids"]) for sentence in sentences)
    padded: dict[str, list[Any]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for sentence in sentences:
        for name, filler in (("input_ids", 0), ("attention_mask", 0), ("labels", -100)):
            missing = length - len(sentence[name])
            padded[name].append(torch.nn.functional.pad(sentence[name], (0, missing), value=filler))
    return {name: torch.stack(rows) for name, rows in padded.items()}


class Watch(TrainerCallback):  # type: ignore[misc]
    """Notes what is there after each step."""

    allocated: list[int]

    def __init__(self) -> None:
        self.allocated = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.allocated.append(torch.cuda.memory_allocated())


def main() -> None:
    sharded = "fsdp" in sys.argv
    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(vocab_size=1000, use_cache=False, **shape), dtype=torch.bfloat16
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    options: dict[str, Any] = {"gradient_checkpointing": True}
    if sharded:
        layers = {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "reshard_after_forward": True}
        options = {"fsdp": True, "fsdp_config": layers}
    else:
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
        model.enable_input_require_grads()
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            max_steps=STEPS,
            bf16=True,
            logging_steps=2,
            save_strategy="no" if sharded else "steps",
            save_steps=STEPS,
            report_to=[],
            disable_tqdm=True,
            **options,
        )
        trainer = Trainer(
            model=model, args=arguments, train_dataset=Sentences(), data_collator=together, callbacks=[watch]
        )
        trainer.train()
    found = {
        "parameters": parameters,
        "trained": sum(parameter.numel() for parameter in trainer.model.parameters() if parameter.requires_grad),
        "allocated": watch.allocated,
        "peak": torch.cuda.max_memory_allocated(),
        "steps": trainer.state.global_step,
        "world": arguments.world_size,
        "kind": type(trainer.model_wrapped).__name__,
    }
    print(json.dumps(found))


main()
