"""Stand-ins as the dynamic linker takes them: written for a small PyTorch of our own, preloaded, called.

The small PyTorch is compiled here against libraries that define what NVIDIA's do, which are then thrown away. A few
questions are asked of the real PyTorch, where it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gmlake.cache import cache_folder
from gmlake.emulator.standins import cache, find_torch, stand_ins
from gmlake.emulator.standins.libraries import library_by_prefix, library_of
from gmlake.emulator.standins.machines import AARCH64, X86_64
from gmlake.emulator.standins.plan import plan, torch_libraries
from gmlake.emulator.standins.reading import Import, read_exports, read_imports, read_needed
from gmlake.emulator.standins.writing import Contents, Function, library
from gmlake.errors import UserError

DEVICE = """
#include <stdio.h>
int gmlake_device_unimplemented(const char* symbol, int code) {
  printf("unimplemented %s %d\\n", symbol, code); fflush(stdout); return code;
}
int gmlake_device_noop(const char* symbol) { printf("noop %s\\n", symbol); fflush(stdout); return 0; }
int cublasCreate_v2(void) { puts("by hand"); fflush(stdout); return 77; }
int cuInit(void) { return 78; }
"""
VENDOR = {
    "libcublas.so.13": ("libcublas.so.13", ["cublasCreate_v2", "cublasSgemm_v2", "cublasSetStream_v2"]),
    "libcudnn.so.9": ("libcudnn.so.9", ["cudnnBackendExecute"]),
    "libcurand.so.10": ("libcurand.so.10", []),
    "libnvshmem_host.so.3": ("NVSHMEM", ["nvshmem_malloc"]),
    "libnccl.so.2": ("", ["ncclAllReduce"]),
    "libcufile.so.0": ("", ["cuFileHandleRegister"]),
    "libcuda.so.1": ("", ["cuInit", "cuLaunchKernel"]),
}
TORCH = [
    "cublasCreate_v2",
    "cublasSgemm_v2",
    "cublasSetStream_v2",
    "cudnnBackendExecute",
    "ncclAllReduce",
    "cuFileHandleRegister",
    "cuInit",
    "cuLaunchKernel",
]
PREAMBLE = "import ctypes, sys; torch = ctypes.CDLL(sys.argv[1])\n"


def compile_library(path: Path, source: str, *options: str) -> None:
    """A shared library from C source; skips where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler was found to build a small PyTorch with")
    command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-x", "none", *options, "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True, timeout=60)


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A double of libgmlake_device.so, which says what it is called with."""
    path = tmp_path_factory.mktemp("device") / "libgmlake_device.so"
    compile_library(path, DEVICE, "-Wl,-soname,libgmlake_device.so")
    return path


@pytest.fixture(scope="session")
def torch_lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries of a small PyTorch; what they were linked against is gone."""
    folder = tmp_path_factory.mktemp("torch") / "lib"
    vendor = tmp_path_factory.mktemp("vendor")
    folder.mkdir()
    for soname, (version, symbols) in VENDOR.items():
        source = "\n".join(f"int {symbol}(void) {{ return 0; }}" for symbol in symbols)
        script = vendor / "versions"
        script.write_text(f"{version} {{ global: *; }};\n")
        options = [f"-Wl,--version-script={script}"] if version else []
        compile_library(vendor / soname, source, f"-Wl,-soname,{soname}", *options)
    source = "\n".join(f"int {name}(void); int call_{name}(void) {{ return {name}(); }}" for name in TORCH)
    source += "\nextern int nvshmem_malloc(void) __attribute__((weak)); int has_weak(void) { return !!nvshmem_malloc; }"
    libraries = [f"-l:{soname}" for soname in VENDOR]
    options = ["-Wl,--no-as-needed", f"-L{vendor}", *libraries, "-Wl,-z,now"]
    compile_library(folder / "libtorch_cuda.so", source, *options)
    shutil.rmtree(vendor)
    return folder


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gmlake"


def preloaded(command: list[str], *libraries: Path) -> str:
    """What a command prints with these libraries preloaded; it must not fail, and the linker must not complain."""
    environment = {**os.environ, "LD_PRELOAD": ":".join(map(str, libraries)), "LD_BIND_NOW": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def answers(program: str, torch_lib: Path, device: Path) -> list[str]:
    """The lines that a Python program prints in which `torch` is the small PyTorch, loaded."""
    command = [sys.executable, "-c", PREAMBLE + program, str(torch_lib / "libtorch_cuda.so")]
    return preloaded(command, device, stand_ins(torch_lib, device)).splitlines()


class TestLoading:
    def test_functions_report_their_name_and_code(self, torch_lib: Path, device: Path) -> None:
        program = "\n".join(
            f"print(torch.call_{name}())" for name in TORCH if name not in ("cublasCreate_v2", "cuInit")
        )
        assert answers(program, torch_lib, device) == [
            *("noop cublasSgemm_v2", "0"),
            *("unimplemented cublasSetStream_v2 15", "15"),
            *("unimplemented cudnnBackendExecute 3000", "3000"),
            *("unimplemented ncclAllReduce 5", "5"),
            *("unimplemented cuFileHandleRegister 5007", "5007"),
            *("unimplemented cuLaunchKernel 801", "801"),
        ]

    def test_what_the_device_defines_wins(self, torch_lib: Path, device: Path) -> None:
        assert answers("print(torch.call_cublasCreate_v2())", torch_lib, device) == ["by hand", "77"]
        assert answers("print(torch.call_cuInit())", torch_lib, device) == ["78"]

    def test_it_is_also_found_through_the_library_that_it_belongs_to(self, torch_lib: Path, device: Path) -> None:
        program = "print(ctypes.CDLL('libcublas.so.13').cublasCreate_v2(), ctypes.CDLL('libcuda.so.1').cuInit())"
        assert answers(program, torch_lib, device) == ["by hand", "77 78"]

    def test_unknown_functions_stay_unknown(self, torch_lib: Path, device: Path) -> None:
        program = "print(hasattr(ctypes.CDLL('libcublas.so.13'), 'cublasNever'), torch.has_weak())"
        assert answers(program, torch_lib, device) == ["False 0"]

    def test_libraries_of_which_nothing_is_imported(self, torch_lib: Path, device: Path) -> None:
        program = "print([bool(ctypes.CDLL(name)) for name in ('libcurand.so.10', 'libnvidia-ml.so.1')])"
        assert answers(program, torch_lib, device) == ["[True, True]"]

    def test_any_program_runs_silently(self, torch_lib: Path, device: Path) -> None:
        assert preloaded(["/bin/sh", "-c", "echo hello"], device, stand_ins(torch_lib, device)) == "hello\n"

    def test_no_file_looks_like_the_real_runtime(self, torch_lib: Path, device: Path) -> None:
        program = "print('libcu' in open('/proc/self/maps').read())"
        assert answers(program, torch_lib, device) == ["False"]

    def test_memory_is_never_writable_and_executable(self, torch_lib: Path, device: Path, empty_cache: Path) -> None:
        program = f"print(*{{row.split()[1] for row in open('/proc/self/maps') if {str(empty_cache)!r} in row}})"
        (modes,) = answers(program, torch_lib, device)
        assert set(modes.split()) == {"r-xp", "r--p"}

    def test_without_pytorch_only_the_driver_and_the_management_library(self, device: Path) -> None:
        umbrella = stand_ins(None, device)
        assert [Path(part).name for part in read_needed(umbrella)] == ["cuda-1.so", "nvidia-ml-1.so"]
        program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit())"
        assert preloaded([sys.executable, "-c", program], device, umbrella) == "78\n"


class TestWriting:
    def test_many_functions_are_all_found(self, tmp_path: Path, device: Path) -> None:
        functions = [Function(f"function{n}", f"tag{n % 3}" if n % 4 else "", n if n % 2 else None) for n in range(999)]
        path = tmp_path / "many.so"
        path.write_bytes(library(X86_64, Contents("libmany.so.1", [str(device)], ["spare"], functions)))
        assert read_exports(path) == {function.symbol for function in functions}
        assert read_needed(path) == (str(device),)
        program = (
            f"import ctypes; many = ctypes.CDLL({str(path)!r})\n"
            "assert all(getattr(many, f'function{n}')() == (n if n % 2 else 0) for n in range(999))"
        )
        lines = preloaded([sys.executable, "-c", program]).splitlines()
        assert lines[:2] == ["noop function0", "unimplemented function1 1"]
        assert len(lines) == 999

    @pytest.mark.parametrize("code", [0, -1, 2**31 - 1, -(2**31)])
    def test_codes(self, tmp_path: Path, device: Path, code: int) -> None:
        path = tmp_path / "code.so"
        path.write_bytes(library(X86_64, Contents("code", [str(device)], [], [Function("function", "", code)])))
        program = f"import ctypes; print(ctypes.CDLL({str(path)!r}).function())"
        assert preloaded([sys.executable, "-c", program]) == f"unimplemented function {code}\n{code}\n"

    def test_the_code_for_aarch64(self) -> None:
        # No such machine is at hand: the words are those that an assembler gives for the same instructions.
        stub = AARCH64.stub(0x400, 0x2F3, 0x10100, -2).hex(" ", 4)
        assert stub == "5f2403d5 60f7ff70 c1ff9f52 e1ffbf72 90e70758 00021fd6"
        assert AARCH64.stub(0, 8, 16, None).hex(" ", 4) == "5f2403d5 20000010 50000058 00021fd6"


class TestReading:
    def test_imports(self, torch_lib: Path) -> None:
        imports = read_imports(torch_lib / "libtorch_cuda.so")
        assert set(imports.needed) >= set(VENDOR)
        assert Import("cublasSgemm_v2", "libcublas.so.13", "libcublas.so.13") in imports.symbols
        assert Import("ncclAllReduce", "", "") in imports.symbols
        assert "nvshmem_malloc" not in {wanted.symbol for wanted in imports.symbols}
        assert ("libnvshmem_host.so.3", "NVSHMEM") in imports.versions

    @pytest.mark.parametrize("length", [0, 3, 63, 64, 200, 1000])
    def test_files_cut_short(self, torch_lib: Path, tmp_path: Path, length: int) -> None:
        path = tmp_path / "libtorch_cuda.so"
        path.write_bytes((torch_lib / "libtorch_cuda.so").read_bytes()[:length])
        with pytest.raises(UserError, match=r"libtorch_cuda\.so is not a shared library that can be read: \S"):
            read_imports(path)

    def test_damage_anywhere_gives_one_sentence_or_an_answer(self, torch_lib: Path, tmp_path: Path) -> None:
        whole = (torch_lib / "libtorch_cuda.so").read_bytes()
        path = tmp_path / "libtorch_cuda.so"
        for at in range(0, min(len(whole), 4000), 7):
            path.write_bytes(whole[:at] + b"\xff\xff\xff" + whole[at + 3 :])
            try:
                read_imports(path)
                read_exports(path)
            except UserError as error:
                assert "\n" not in str(error)

    def test_not_an_elf_file(self, tmp_path: Path) -> None:
        path = tmp_path / "libtorch_cuda.so"
        path.write_text("garbage " * 100)
        with pytest.raises(UserError, match="not a 64-bit little-endian ELF file"):
            stand_ins(tmp_path, path)
        with pytest.raises(UserError, match="cannot be read: No such file"):
            read_imports(tmp_path / "none.so")


class TestAttribution:
    @pytest.mark.parametrize(
        ("symbol", "stem"),
        [
            ("cublasLtMatmul", "cublasLt"),
            ("cublasSgemm_v2", "cublas"),
            ("cusparseLtInit", "cusparseLt"),
            ("cuFileRead", "cufile"),
            ("cuMemCreate", "cuda"),
            ("cudaMalloc", "cudart"),
            ("__cudaRegisterFunction", "cudart"),
            ("cudnnCreate", "cudnn"),
            ("nvmlInit_v2", "nvidia-ml"),
            ("nvshmem_malloc", "nvshmem_host"),
            ("curl_easy_init", ""),
            ("_ZN3c104cudaE", ""),
        ],
    )
    def test_prefixes(self, symbol: str, stem: str) -> None:
        found = library_by_prefix(symbol)
        assert (found.stem if found else "") == stem

    @pytest.mark.parametrize(
        ("soname", "stem"),
        [
            ("libcudart.so.13", "cudart"),
            ("libcudart-9335f6a2.so.12", "cudart"),
            ("libnvidia-ml.so.1", "nvidia-ml"),
            ("libnvshmem_host.so.3", "nvshmem_host"),
            ("libcurl.so.4", ""),
            ("libc10_cuda.so", ""),
        ],
    )
    def test_sonames(self, soname: str, stem: str) -> None:
        found = library_of(soname)
        assert (found.stem if found else "") == stem

    @pytest.mark.parametrize(
        ("symbol", "code"),
        [
            ("cublasGemmEx", None),
            ("cublasSgemmStridedBatched", None),
            ("cublasIsamax_v2", None),
            ("cublasSrotg_v2", 15),
            ("cublasSetStream_v2", 15),
            ("cublasCreate_v2", 15),
            ("cusolverDnSgetrf", None),
            ("cusolverDnSgetrf_bufferSize", 9),
            ("cusparseSpMM", None),
            ("cusparseSpMM_bufferSize", 10),
            ("nvshmem_malloc", 0),
            ("nvshmemx_get_uniqueid", 3),
        ],
    )
    def test_what_may_do_nothing(self, symbol: str, code: int | None) -> None:
        found = library_by_prefix(symbol)
        assert found is not None
        assert found.code(symbol) == code


class TestCache:
    def test_found_again(self, torch_lib: Path, device: Path) -> None:
        umbrella = stand_ins(torch_lib, device)
        written = umbrella.stat().st_mtime_ns
        assert stand_ins(torch_lib, device) == umbrella
        assert umbrella.stat().st_mtime_ns == written

    def test_another_pytorch_is_another_folder(self, torch_lib: Path, device: Path, tmp_path: Path) -> None:
        other = tmp_path / "lib"
        shutil.copytree(torch_lib, other)
        os.utime(other / "libtorch_cuda.so", (1, 1))
        assert stand_ins(other, device) != stand_ins(torch_lib, device)

    def test_another_device_is_another_folder(self, device: Path, tmp_path: Path) -> None:
        other = tmp_path / "libgmlake_device.so"
        shutil.copyfile(device, other)
        assert stand_ins(None, other) != stand_ins(None, device)

    def test_many_processes_at_once(self, torch_lib: Path, device: Path, empty_cache: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from gmlake.emulator.standins import stand_ins;"
            "print(stand_ins(Path(sys.argv[1]), Path(sys.argv[2])))"
        )
        command = [sys.executable, "-c", program, str(torch_lib), str(device)]
        with ThreadPoolExecutor(6) as pool:
            printed = set(pool.map(lambda _: subprocess.check_output(command, text=True, timeout=60), range(6)))
        assert printed == {f"{stand_ins(torch_lib, device)}\n"}
        assert [path.name for path in empty_cache.iterdir()] == [stand_ins(torch_lib, device).parent.name]

    def test_a_damaged_folder_is_made_again(self, torch_lib: Path, device: Path) -> None:
        umbrella = stand_ins(torch_lib, device)
        umbrella.with_name("cublas-13.so").unlink()
        assert stand_ins(torch_lib, device) == umbrella
        assert umbrella.with_name("cublas-13.so").is_file()
        umbrella.write_bytes(b"")
        assert stand_ins(torch_lib, device) == umbrella
        assert read_needed(umbrella)

    def test_slower_than_another_process(self, torch_lib: Path, device: Path, tmp_path: Path) -> None:
        umbrella = stand_ins(torch_lib, device)
        late = tmp_path / "late"
        late.mkdir()
        (late / "part").write_text("")
        cache._put_in_place(late, umbrella.parent)
        assert umbrella.is_file()
        assert late.is_dir()

    def test_a_cache_that_cannot_be_written(
        self, torch_lib: Path, device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(UserError, match=r"cannot be kept .*Not a directory.*; set XDG_CACHE_HOME to a writable"):
            stand_ins(torch_lib, device)

    @pytest.mark.parametrize("name", ["with space", "with:colon", "with$dollar"])
    def test_names_that_the_linker_cannot_take(
        self, device: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        with pytest.raises(UserError, match="space, colon or dollar"):
            stand_ins(None, device)

    def test_the_usual_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/somebody")
        for value in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", value)
            assert cache_folder() == Path("/home/somebody/.cache/gmlake")

    def test_a_missing_device(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"libgmlake_device\.so is missing; install gmlake again"):
            stand_ins(None, tmp_path / "libgmlake_device.so")


class TestBuilds:
    def test_without_cuda(self, device: Path, tmp_path: Path) -> None:
        folder = tmp_path / "torch" / "lib"
        folder.mkdir(parents=True)
        (folder.parent / "version.py").write_text("__version__ = '2.14.1+cpu'\n")
        (folder / "libtorch_cpu.so").write_bytes(b"")
        with pytest.raises(UserError, match=r"torch 2\.14\.1\+cpu in .* is built without CUDA; .*pip install torch=="):
            stand_ins(folder, device)

    def test_for_another_processor(self, torch_lib: Path, device: Path, tmp_path: Path) -> None:
        data = bytearray((torch_lib / "libtorch_cuda.so").read_bytes())
        data[18:20] = (243).to_bytes(2, "little")
        (tmp_path / "libtorch_cuda.so").write_bytes(data)
        with pytest.raises(UserError, match="x86_64 and aarch64, not on processor 243"):
            stand_ins(tmp_path, device)

    def test_wheels_that_bring_the_libraries_along(self, torch_lib: Path, tmp_path: Path) -> None:
        (tmp_path / "libcudart-9335f6a2.so.12").write_bytes(b"not read")
        shutil.copyfile(torch_lib / "libtorch_cuda.so", tmp_path / "libtorch_cuda.so")
        assert [path.name for path in torch_libraries(tmp_path)] == ["libtorch_cuda.so"]

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "path", [])
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        assert find_torch() is None


@pytest.fixture(scope="session")
def real_torch() -> Path:
    """The libraries of the PyTorch in this environment."""
    folder = find_torch()
    if folder is None or not (folder / "libtorch_cuda.so").is_file():
        pytest.skip("no CUDA build of PyTorch is installed here")
    return folder


class TestRealTorch:
    def test_every_library_gets_a_stand_in(self, real_torch: Path) -> None:
        _, contents = plan(torch_libraries(real_torch), ())
        stems = {found.stem for part in contents if (found := library_of(part.soname))}
        assert stems >= {"cuda", "nvidia-ml", "cudart", "cublas", "cublasLt", "cudnn", "cusparse", "cusolver", "nccl"}
        assert sum(len(part.functions) for part in contents) > 500

    def test_it_is_imported(self, real_torch: Path, device: Path) -> None:
        program = "import torch; print(torch.version.cuda is not None)"
        lines = preloaded([sys.executable, "-c", program], device, stand_ins(real_torch, device)).splitlines()
        assert "True" in lines
