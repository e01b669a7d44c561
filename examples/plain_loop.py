"""Train a language model in a plain PyTorch loop, in mixed precision.

gmlake compare --emulate a100-80g -- python examples/plain_loop.py
"""

from __future__ import annotations

import torch
from common import LanguageModel, arguments, texts


def main() -> None:
    """Train for some steps."""
    args = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    model = LanguageModel(args.width, args.layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, tokens in enumerate(texts(args.steps, args.batch, args.longest), 1):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {tokens.shape[1]} tokens, loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
