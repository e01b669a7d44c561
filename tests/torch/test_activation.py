"""Three ways in, and everything that stands in the way: one sentence, and PyTorch's own allocator goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator.running import Done, Emulated

from .conftest import Run, last_line

WHO = """
import json, torch
x = torch.ones(3, device="cuda")
print(json.dumps([torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated()]))
"""
ENABLE = """
import json, sys
import gmlake
%s
import torch
x = torch.ones(3, device="cuda")
print(json.dumps([torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated(), gmlake.is_enabled()]))
"""
LATE = "import torch; torch.ones(1, device='cuda')\n"


def test_by_variable(emulated: Emulated) -> None:
    assert last_line(emulated(WHO, env={"GMLAKE": "1"})) == ["gmlake", 512]
    assert last_line(emulated(WHO, env={"GMLAKE": "0"})) == ["native", 512]


def test_by_command(gmlake: Run, native: Run) -> None:
    assert gmlake(WHO) == ["gmlake", 512]
    assert native(WHO, env={"GMLAKE": "1"}) == ["native", 512]


def test_expandable_segments_by_command(emulated: Emulated) -> None:
    program = WHO + "print(json.dumps(torch.cuda.memory._snapshot()['allocator_settings']['PYTORCH_CUDA_ALLOC_CONF']))"
    done = emulated(program, "--allocator", "expandable", env={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
    assert last_line(done) == "max_split_size_mb:64,expandable_segments:True"


def test_by_call_before_and_after_torch_is_imported(emulated: Emulated) -> None:
    assert last_line(emulated(ENABLE % "gmlake.enable()")) == ["gmlake", 512, True]
    twice = "import torch; gmlake.enable(chunk_limit='8MiB', target=0.9); gmlake.enable()"
    assert last_line(emulated(ENABLE % twice)) == ["gmlake", 512, True]


def test_in_a_notebook(emulated: Emulated) -> None:
    """Cells that run one after the other, some of them failing, in a process that lives on."""
    program = """
import code
cells = [
    "import torch, json, gmlake",
    "gmlake.enable()",
    "model = torch.nn.Linear(1000, 1000, device='cuda')",
    "torch.empty(1 << 40, device='cuda')",
    "del model",
    "gmlake.enable()",
    "gmlake.disable()",
    "print(json.dumps([torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated()]))",
]
notebook = code.InteractiveInterpreter()
for cell in cells:
    notebook.runsource(cell)
"""
    done = emulated(program)
    assert last_line(done) == ["gmlake", 0]
    errors = [line for line in done.stderr.splitlines() if line[:1].isalpha() and "Error" in line.partition(":")[0]]
    assert [error.partition(":")[0] for error in errors] == ["torch.OutOfMemoryError"]
    assert "PyTorch cannot leave an allocator it was given" in done.stderr


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (LATE + "gmlake.enable()", "CUDA is in use already; call gmlake.enable() before the first use of the GPU"),
        ("import torch; torch.ones(1).pin_memory(); gmlake.enable()", "CUDA is in use already"),
        ("gmlake.enable(colour='red')", "unknown option 'colour'"),
        ("gmlake.enable(target=7)", "option target must be above 0 and at most 1, not 7"),
        ("gmlake.enable(compare='perhaps')", "option compare is 1 or 0, not 'perhaps'"),
        ("gmlake.enable(); gmlake.enable(target=0.9)", "GMLake serves this process already"),
        ("gmlake.enable(); gmlake.disable()", "PyTorch cannot leave an allocator it was given"),
    ],
)
def test_refusals(emulated: Emulated, call: str, sentence: str) -> None:
    """An error that can be caught, after which PyTorch works, with whatever allocator it had."""
    lines = call.replace("; ", "\n").splitlines()
    guarded = "\n".join(lines[:-1]) + f"\ntry:\n    {lines[-1]}\nexcept (RuntimeError, ValueError) as error:\n"
    guarded += "    print(error, file=sys.stderr)\nelse:\n    sys.exit('accepted')"
    done = emulated(ENABLE % guarded)
    assert sentence in done.stderr
    backend, allocated, _ = last_line(done)
    assert backend == ("gmlake" if "gmlake.enable();" in call else "native")
    assert allocated == 512


@pytest.mark.parametrize("more", ["foo=1", "target=7"])
def test_options_of_a_call_that_failed_are_forgotten(emulated: Emulated, more: str) -> None:
    """How many handles memory is made of tells the size of chunks."""
    program = """
import json, gmlake
from gmlake import _core
try:
    gmlake.enable(%s)
except ValueError:
    pass
gmlake.enable()
import torch
x = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
print(json.dumps(_core.process_driver(0).counts()["create"][0]))
"""
    usual, small, failed = (
        last_line(emulated(program % options)) for options in ("", "chunk_limit='2MiB'", f"chunk_limit='2MiB', {more}")
    )
    assert usual < small
    assert failed == usual


def test_disable_without_enable_is_nothing(emulated: Emulated) -> None:
    assert last_line(emulated(ENABLE % "gmlake.disable()")) == ["native", 512, False]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"GMLAKE": "perhaps"}, "GMLAKE=perhaps means nothing; expected 1, strict or 0"),
        ({"GMLAKE": "1", "GMLAKE_COLOUR": "red"}, "GMLAKE_COLOUR: unknown option 'colour'"),
        ({"GMLAKE": "1", "GMLAKE_TARGET": "much"}, "GMLAKE_TARGET: "),
        ({"GMLAKE": "1", "GMLAKE_TARGTE": "0.9"}, "did you mean GMLAKE_TARGET?"),
        ({"GMLAKE": "1", "GMLAKE_TARGET": "7"}, "GMLAKE_TARGET: option target must be above 0 and at most 1, not 7"),
        ({"GMLAKE": "1", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "told to use the allocator"),
    ],
)
def test_a_variable_that_cannot_be_followed(emulated: Emulated, variables: dict[str, str], sentence: str) -> None:
    def run(variables: dict[str, str]) -> Done:
        """Set within the run: gmlake run itself would not start a command with them."""
        return emulated.command(["env", *(f"{name}={value}" for name, value in variables.items()), "python", "-c", WHO])

    done = run(variables)
    assert last_line(done)[0] != "gmlake"
    assert "RuntimeWarning: GMLake is not used, PyTorch's own allocator is: " in done.stderr
    assert sentence in done.stderr
    if variables["GMLAKE"] == "1":
        strict = run(variables | {"GMLAKE": "strict"})
        assert strict.status != 0
        assert sentence in strict.stderr


def test_loaded_too_late(emulated: Emulated) -> None:
    """A script may load PyTorch's backends itself, after it has used the GPU."""
    activate = "from gmlake.torch.activation import enable_from_environment\nenable_from_environment('1')\n"
    done = emulated(LATE + activate + WHO)
    assert last_line(done)[0] == "native"
    assert "GMLake is not used, PyTorch's own allocator is: CUDA is in use already" in done.stderr


FAKES = {
    "cpu": ("class C: pass\n_C = C()\n__version__ = '2.14.1+cpu'\n", "torch 2.14.1+cpu has no CUDA"),
    "old": (
        "class C:\n    _cuda_customAllocator = None\n_C = C()\n__version__ = '1.13'\n",
        "torch 1.13 lacks torch._C._cuda_memoryStats; GMLake supports PyTorch 2.6 and newer",
    ),
    "broken": ("raise ImportError('no libtorch')\n", "PyTorch cannot be imported (no libtorch)"),
}


@pytest.mark.parametrize("kind", FAKES)
def test_a_torch_that_will_not_do(kind: str, tmp_path: Path) -> None:
    source, sentence = FAKES[kind]
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(source)
    program = "import gmlake\ntry: gmlake.enable()\nexcept RuntimeError as error: print(error)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(sentence)
    assert done.stdout.count("\n") == 1


def test_activation_is_quick(emulated: Emulated) -> None:
    program = """
import json, sys, time, torch
before = set(sys.modules)
start = time.perf_counter()
import gmlake
gmlake.enable()
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""
    seconds, modules = min(last_line(emulated(program)) for _ in range(3))
    assert seconds < 0.2
    assert "rich" not in modules


def test_the_shim_takes_itself_back(gmlake: Run) -> None:
    program = """
import json, torch
from gmlake.torch import bridge, shim
assert shim.lacking() == []
replaced = {name: getattr(torch._C, name) for name in shim.SEAMS if hasattr(torch._C, name)}
assert all(replaced[name] is shim.SEAMS[name][0] for name in replaced)
shim.remove()
assert not any(getattr(torch._C, name) is shim.SEAMS[name][0] for name in replaced)
assert torch._C._cuda_getAllocatorBackend() == ("gmlake" if bridge.is_active() else "pluggable")
shim.install()
shim.install()
assert torch._C._cuda_getAllocatorBackend() == "gmlake"
print(json.dumps(sorted(set(shim.SEAMS) - set(replaced))))
"""
    assert gmlake(program) == []  # what this torch lacks
