"""The environment of the child, without starting one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gmlake.emulator import launch
from gmlake.emulator.devices import find_device
from gmlake.emulator.inside.settings import Settings, Solo
from gmlake.emulator.launch import Plan, default_gpus, device_text, environment
from gmlake.errors import UserError

SESSION = Path("/tmp/gmlake-test")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A torch with CUDA libraries, our library and stand-ins, all of them empty files."""
    library = tmp_path / "libgmlake_device.so"
    stand_ins = tmp_path / "stand-ins.so"
    monkeypatch.setattr(launch, "_preloaded", lambda: [library, stand_ins])
    return tmp_path


def text(plan: Plan) -> dict[str, str]:
    assert plan.device is not None
    return dict(entry.split("=", 1) for entry in device_text(plan, plan.device).split(";"))


def test_without_a_device_the_child_is_only_watched() -> None:
    child = environment(Plan(SESSION, record=Path("out.gmt")), {"PATH": "/bin", "HOME": "/root"})
    assert child["HOME"] == "/root"
    assert not {"LD_PRELOAD", "GMLAKE_DEVICE", "GMLAKE_EMULATE", "RANK"} & set(child)
    assert Settings.parse(child["GMLAKE_RECORD"]) == Settings(SESSION, record="out.gmt")


def test_our_interpreter_comes_first() -> None:
    child = environment(Plan(SESSION), {"PATH": "/bin:/usr/bin"})
    assert child["PATH"] == f"{Path(sys.executable).parent}:/bin:/usr/bin"
    assert environment(Plan(SESSION), {})["PATH"] == str(Path(sys.executable).parent)


def test_the_native_library_is_told_the_card() -> None:
    entries = text(Plan(SESSION, find_device("h100-80g"), gpus=4, kernel_us=2.5, leaks=True))
    assert entries["name"] == "NVIDIA H100 80GB HBM3"
    assert entries["memory"] == "85028896768"
    assert (entries["capability"], entries["multiprocessors"], entries["count"]) == ("9.0", "132", "4")
    assert (entries["kernel_us"], entries["leaks"], entries["session"]) == ("2.5", "1", str(SESSION))
    assert not {"compute", "hazards", "world_size", "rank", "peers"} & set(entries)
    assert text(Plan(SESSION, find_device("rtx4090-24g")))["peers"] == "0"


def test_an_emulated_child(installed: Path) -> None:
    plan = Plan(SESSION, find_device("t4-16g"), compute=True)
    base = {"LD_PRELOAD": "/a.so /b.so", "CUDA_VISIBLE_DEVICES": "", "GMLAKE_RECORD": "{}", "GMLAKE_TARGET": "0.99"}
    child = environment(plan, base)
    assert child["LD_PRELOAD"] == f"{installed}/libgmlake_device.so:{installed}/stand-ins.so:/a.so:/b.so"
    assert "CUDA_VISIBLE_DEVICES" not in child
    assert "GMLAKE_RECORD" not in child
    assert child["GMLAKE_TARGET"] == "0.99"
    assert Settings.parse(child["GMLAKE_EMULATE"]) == Settings(SESSION, device="t4-16g", compute=True)
    assert "compute=1" in child["GMLAKE_DEVICE"]


def test_what_is_compiled_is_kept_apart(installed: Path) -> None:
    plan = Plan(SESSION, find_device("t4-16g"))
    child = environment(plan, {"TRITON_CACHE_DIR": "/mine"})
    assert child["TRITON_CACHE_DIR"] == "/mine/gmlake"
    assert child["TORCHINDUCTOR_CACHE_DIR"] == f"{installed.parent}/compiled/inductor"


def test_one_rank_of_many(installed: Path) -> None:
    plan = Plan(SESSION, find_device("a100-80g"), gpus=default_gpus(64), world_size=64, rank=11)
    child = environment(plan, {})
    told = {name: child[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    assert told == {"RANK": "11", "WORLD_SIZE": "64", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}
    assert child["MASTER_ADDR"] and child["MASTER_PORT"]
    assert child["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "0"
    assert Settings.parse(child["GMLAKE_EMULATE"]).solo == Solo(64, 11)
    entries = text(plan)
    assert (entries["world_size"], entries["rank"], entries["count"]) == ("64", "11", "8")


def test_devices_of_a_rank() -> None:
    assert [default_gpus(size) for size in (None, 1, 4, 8, 64)] == [1, 1, 4, 8, 8]


@pytest.mark.parametrize("folder", ["with space", "with:colon"])
def test_names_that_cannot_be_preloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    monkeypatch.setattr(launch, "_preloaded", lambda: [tmp_path / folder / "libgmlake_device.so"])
    with pytest.raises(UserError, match="cannot be preloaded"):
        environment(Plan(SESSION, find_device("t4-16g")), {})


def test_a_session_that_the_variable_cannot_hold(installed: Path) -> None:
    with pytest.raises(UserError, match="TMPDIR"):
        environment(Plan(Path("/tmp/a;b/gmlake-x"), find_device("t4-16g")), {})


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_torch", lambda: None)
    with pytest.raises(UserError, match="PyTorch is not installed"):
        launch.torch_libraries()


def test_settings_are_json() -> None:
    child = environment(Plan(SESSION, stacks=True), {})
    assert json.loads(child["GMLAKE_RECORD"])["stacks"] is True


def test_a_run_within_an_emulated_run_uses_the_same_device() -> None:
    around = environment(Plan(Path("/tmp/outer"), find_device("t4-16g"), gpus=2), {})
    child = environment(Plan(SESSION, record=Path("out.gmt")), around)
    assert child["GMLAKE_DEVICE"] == around["GMLAKE_DEVICE"]
    assert "GMLAKE_RECORD" not in child
    settings = json.loads(child["GMLAKE_EMULATE"])
    assert (settings["device"], settings["session"], settings["record"]) == ("t4-16g", str(SESSION), "out.gmt")


@pytest.mark.parametrize(
    ("allocator", "setting"),
    [("torch", "max_split_size_mb:64"), ("expandable", "max_split_size_mb:64,expandable_segments:True")],
)
def test_an_allocator_of_pytorch_is_with_or_without_expandable_segments(allocator: str, setting: str) -> None:
    """Whatever the environment says; other settings stay. PyTorch 2.9 takes expandable segments of one name only."""
    first, second = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
    for before in ("", "expandable_segments:True,", "backend:cudaMallocAsync,"):
        before += "max_split_size_mb:64"
        for given in ({first: before}, {second: before}, {first: before, second: "expandable_segments:True"}):
            child = environment(Plan(SESSION, allocator=allocator), {**given, "GMLAKE": "1"})
            name = first if allocator == "expandable" or first in given else second
            assert {key: value for key, value in child.items() if key in (first, second)} == {name: setting}
            assert "GMLAKE" not in child
    nothing = environment(Plan(SESSION, allocator="torch"), {})
    assert first not in nothing and second not in nothing
