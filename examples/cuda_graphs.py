"""Train with CUDA graphs: a whole step is captured once for each length of text, then replayed.

gmlake compare --emulate a100-80g -- python examples/cuda_graphs.py
"""

from __future__ import annotations

import torch
from common import VOCABULARY, LanguageModel, arguments


def main() -> None:
    """Capture a step for every length, then train with them in turn."""
    args = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    model = LanguageModel(args.width, args.layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    inputs = [torch.randint(VOCABULARY, (args.batch, args.longest // part)).cuda() for part in (1, 2, 4)]

    def step(tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    # The first steps run on a stream of their own, because the default stream cannot be captured.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for tokens in inputs:
            step(tokens)
    torch.cuda.current_stream().wait_stream(side)

    pool = torch.cuda.graph_pool_handle()  # the graphs are replayed one at a time and may share memory
    graphs, losses = [], []
    for tokens in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            losses.append(step(tokens))
        graphs.append(graph)

    for number in range(args.steps):
        which = number % len(graphs)
        inputs[which].copy_(torch.randint(VOCABULARY, inputs[which].shape))
        graphs[which].replay()
        print(f"step {number + 1}: {inputs[which].shape[1]} tokens, loss {losses[which].item():.6f}")


if __name__ == "__main__":
    main()
