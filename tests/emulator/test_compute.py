"""Shadow compute: what programs compute on the emulated device is what they compute on the CPU, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.emulator.running import Emulated

# Fills memory with what would be a wild index, and gives it back.
STALE = """
import torch

stale = torch.full((1000,), 10**12, device="cuda")
del stale
"""

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["computed_models", "computed_operations"])
def test_programs_agree_with_the_cpu(emulated: Emulated, tmp_path: Path, module: str) -> None:
    differing = tmp_path / "differing.json"
    script = Path(__file__).with_name("computed.py")
    done = emulated(script, "--compute", arguments=(differing, module), env={"PYTHONPATH": str(ROOT)}, timeout=600)
    assert done.status == 0, done.stderr
    found = json.loads(differing.read_text())
    assert len(found) > 20
    assert {name: how for name, how in found.items() if how} == {}


def test_what_is_not_computed_reads_as_zero(emulated: Emulated) -> None:
    program = """
sparse = torch.eye(6).cuda().to_sparse_csr()
assert not sparse.crow_indices().any()
torch.sparse.sampled_addmm(sparse, torch.ones(6, 6).cuda(), torch.ones(6, 6).cuda())  # which would follow the indices
"""
    done = emulated(STALE + program, "--compute")
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    assert "aten::_to_sparse_csr" in process["not_computed"]


def test_nested_tensors_are_said_not_to_be_computed(emulated: Emulated) -> None:
    program = """
layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2).cuda().eval()
mask = torch.tensor([[0, 0, 0, 1, 1], [0] * 5], dtype=torch.bool).cuda()
with torch.no_grad():
    assert model(torch.randn(2, 5, 16).cuda(), src_key_padding_mask=mask).shape == (2, 5, 16)
"""
    done = emulated(STALE + program, "--compute", "--hazards")
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    assert process["not_computed"]["aten::_nested_tensor_from_mask"] == "nested tensors"


WRITTEN = """
import torch, triton, triton.language as tl

@triton.jit
def written(x, n: tl.constexpr):
    tl.store(x + tl.arange(0, n), 2.0)

written[(1,)](torch.ones(64, device="cuda"), 64)
"""
COMPILED = "import torch; torch.compile(lambda x: x.sin() + 1)(torch.ones(64, device='cuda'))"
OF_AN_OPERATOR = "import torch; torch.bmm(torch.ones(2, 3, 1).cuda(), torch.ones(2, 1, 4).cuda())"


@pytest.mark.parametrize(
    ("program", "name"),
    [(WRITTEN, "written"), (COMPILED, "triton_poi_fused_add_sin_0"), (OF_AN_OPERATOR, None)],
    ids=["written", "compiled", "of an operator"],
)
def test_kernels_in_triton_are_named_unless_an_operator_is_redone(
    emulated: Emulated, tmp_path: Path, program: str, name: str | None
) -> None:
    pytest.importorskip("triton")
    script = tmp_path / "program.py"
    script.write_text(program)
    done = emulated(script, "--compute")
    assert done.status == 0, done.stderr
    found = [process.get("not_computed", {}) for process in done.report["processes"]]
    told = {why.rpartition(" ")[2] for each in found for why in each.values()}  # compiling may take several processes
    assert told == ({name} if name else set())
