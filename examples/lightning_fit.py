"""Train with Lightning; --find-batch-size lets its tuner double the batch until memory runs out.

gmlake compare --emulate a100-80g -- python examples/lightning_fit.py
gmlake run --emulate a100-40g --allocator gmlake -- python examples/lightning_fit.py --find-batch-size
"""

from __future__ import annotations

import argparse
import tempfile

import lightning
import torch
from common import LanguageModel, arguments, padded, sentences
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader


class Training(lightning.LightningModule):
    """The model, its data and its optimizer."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.args = args
        self.batch_size = args.batch  # what the tuner changes
        self.model = LanguageModel(args.width, args.layers)

    def train_dataloader(self) -> DataLoader:
        """More texts than are needed, since the tuner never takes a batch of more than there are."""
        return DataLoader(sentences(1000, self.args.longest), self.batch_size, collate_fn=padded)

    def training_step(self, tokens: torch.Tensor, number: int) -> torch.Tensor:
        """The loss of a batch."""
        loss = self.model(tokens)
        print(f"step {number + 1}: {len(tokens)} texts, loss {loss.item():.6f}")
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """For all parameters."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def main() -> None:
    """Train for some steps."""
    parser = arguments(__doc__)
    parser.add_argument("--find-batch-size", action="store_true")
    args = parser.parse_args()
    lightning.seed_everything(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="gpu",
            devices=1,
            precision="bf16-mixed",
            max_steps=args.steps,
            gradient_clip_val=1.0,
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        training = Training(args)
        if args.find_batch_size:
            found = Tuner(trainer).scale_batch_size(training, init_val=args.batch, steps_per_trial=2)
            print(f"batch of {found}")
        trainer.fit(training)


if __name__ == "__main__":
    main()
