"""Train while the next batch is copied and prepared on a second stream.

gmlake compare --emulate a100-80g --kernel-us 20 -- python examples/two_streams.py
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from common import LanguageModel, arguments, texts


def prefetched(batches: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The batches on the GPU, each copied while the one before it is in use."""
    copies = torch.cuda.Stream()
    ahead: torch.Tensor | None = None
    for batch in batches:
        with torch.cuda.stream(copies):
            arriving = batch.pin_memory().to("cuda", non_blocking=True)
        if ahead is not None:
            yield ahead
        torch.cuda.current_stream().wait_stream(copies)
        arriving.record_stream(torch.cuda.current_stream())
        ahead = arriving
    if ahead is not None:
        yield ahead


def main() -> None:
    """Train for some steps."""
    args = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    model = LanguageModel(args.width, args.layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, tokens in enumerate(prefetched(texts(args.steps, args.batch, args.longest)), 1):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
