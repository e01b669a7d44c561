"""Recurrent networks: cells that CUDA fuses, and cuDNN's whole layers.

A fused cell is given products that the CPU's path would have summed with the biases inside; bits may differ from a CPU
run there. cuDNN's operator is the whole network, and the CPU computes the same whole.
"""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Draws, Tensor, gradients, stands_for

_RNN_RELU, _RNN_TANH, _LSTM, _GRU = range(4)  # cuDNN's numbers
_WITH_BIASES = 4  # weights of a layer, or one more with a projection; without biases there are two less

_draws = Draws()  # the ticket is the address of the output, which autograd keeps


def _sum(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


@stands_for("_thnn_fused_lstm_cell")
def lstm_cell(input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None = None,
              hidden_bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Forward; the workspace holds the four gates."""
    gates = _sum(hidden_gates, hidden_bias) + _sum(input_gates, input_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


@stands_for("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor,
                       has_bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Gradients of the gates, of the cell and of the biases."""
    i, f, g, o = workspace.chunk(4, 1)
    hidden = torch.zeros_like(cy) if grad_hy is None else grad_hy
    tanh = cy.tanh()
    cell = hidden * o * (1 - tanh * tanh)
    if grad_cy is not None:
        cell = cell + grad_cy
    gates = torch.cat(
        (
            cell * g * i * (1 - i),
            cell * cx * f * (1 - f),
            cell * i * (1 - g * g),
            hidden * tanh * o * (1 - o),
        ),
        1,
    )
    return gates, cell * f, gates.sum(0) if has_bias else None


@stands_for("_thnn_fused_gru_cell")
def gru_cell(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None = None,
             hidden_bias: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Forward; the workspace holds what the backward needs."""
    of_input = _sum(input_gates, input_bias).chunk(3, 1)
    of_hidden = _sum(hidden_gates, hidden_bias).chunk(3, 1)
    reset = (of_hidden[0] + of_input[0]).sigmoid()
    update = (of_hidden[1] + of_input[1]).sigmoid()
    new = (of_input[2] + of_hidden[2] * reset).tanh()
    return (hx - new) * update + new, torch.cat((reset, update, new, hx, of_hidden[2]), 1)


@stands_for("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    """Gradients of both kinds of gates, of the hidden state and of the biases."""
    reset, update, new, hx, hidden = workspace.chunk(5, 1)
    of_update = grad * (hx - new) * (1 - update) * update
    of_new = grad * (1 - update) * (1 - new * new)
    of_reset = of_new * hidden * (1 - reset) * reset
    of_input = torch.cat((of_reset, of_update, of_new), 1)
    of_hidden = torch.cat((of_reset, of_update, of_new * reset), 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return (of_input, of_hidden, grad * update, *biases)


class _Network:
    """A call of cuDNN's operator, as the CPU's function takes it."""

    def __init__(self, mode: int, batch_first: bool, layers: int, dropout: float, train: bool,
                 bidirectional: bool, batch_sizes: Any, has_biases: bool) -> None:  # fmt: skip
        self.mode = mode
        self.options = (has_biases, layers, dropout, train, bidirectional)
        self.batch_first = batch_first
        self.batch_sizes = torch.tensor(batch_sizes) if batch_sizes else None

    def forward(self, source: Tensor, hx: Tensor, cx: Tensor | None, *weights: Tensor) -> tuple[Tensor, ...]:
        function = {_RNN_RELU: torch.rnn_relu, _RNN_TANH: torch.rnn_tanh, _LSTM: torch.lstm, _GRU: torch.gru}[self.mode]
        state: Any = (hx, cx) if self.mode == _LSTM else hx
        if self.batch_sizes is not None:
            found = function(source, self.batch_sizes, state, list(weights), *self.options)
        else:
            found = function(source, state, list(weights), *self.options, self.batch_first)
        return tuple(found)


@stands_for("_cudnn_rnn", results=True)
def cudnn_rnn(results: Any, source: Tensor, weight: list[Tensor], weight_stride0: int, weight_buf: Tensor | None,
              hx: Tensor, cx: Tensor | None, mode: int, hidden_size: int, proj_size: int, num_layers: int,
              batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Any,
              dropout_state: Tensor | None) -> None:  # fmt: skip
    """Forward of the whole network."""
    network = _Network(mode, batch_first, num_layers, dropout, train, bidirectional, batch_sizes,
                       weight_stride0 >= _WITH_BIASES)  # fmt: skip
    if train and dropout > 0:
        _draws.remember(results[0].data_ptr())
    found = network.forward(source, hx, cx, *weight)
    for result, answer in zip(results, found, strict=False):
        result.copy_(answer)


@stands_for("_cudnn_rnn_backward")
def cudnn_rnn_backward(source: Tensor, weight: list[Tensor], weight_stride0: int, weight_buf: Tensor, hx: Tensor,
                       cx: Tensor | None, output: Tensor, grad_output: Tensor | None, grad_hy: Tensor | None,
                       grad_cy: Tensor | None, mode: int, hidden_size: int, proj_size: int, num_layers: int,
                       batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Any,
                       dropout_state: Tensor | None, reserve: Tensor, output_mask: Any) -> Any:  # fmt: skip
    """Gradients of the whole network."""
    network = _Network(mode, batch_first, num_layers, dropout, train, bidirectional, batch_sizes,
                       weight_stride0 >= _WITH_BIASES)  # fmt: skip
    after = [grad_output, grad_hy] + ([grad_cy] if mode == _LSTM else [])
    wanted = [bool(output_mask[0]), bool(output_mask[1]), bool(output_mask[2]) and cx is not None]
    wanted += [bool(output_mask[3])] * len(weight)

    def again() -> list[Tensor | None]:
        return gradients(network.forward, [source, hx, cx, *weight], wanted, after)

    found = _draws.again(output.data_ptr(), again) if train and dropout > 0 else again()
    return found[0], found[1], found[2], found[3:]
