"""Files are written whole or not at all, and an error names the file."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from gmlake.errors import UserError
from gmlake.output import check_target, move_whole, readable, write_whole

LIMIT = 1 << 16


def test_a_link_leads_to_what_is_not_there_yet(tmp_path: Path) -> None:
    link, loop = tmp_path / "link", tmp_path / "loop"
    link.symlink_to(tmp_path / "new")
    check_target(link, force=False)
    write_whole(link, b"text", force=False)
    assert (tmp_path / "new").read_bytes() == b"text"
    assert link.is_symlink()
    with pytest.raises(UserError, match="exists already"):
        check_target(link, force=False)
    loop.symlink_to(loop)
    with pytest.raises(UserError, match=f"{loop} cannot be written: "):
        check_target(loop, force=True)


@pytest.fixture
def little_room() -> Iterator[None]:
    """No file of this process may be longer than LIMIT."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("little_room")
def test_nothing_is_left_of_what_could_not_be_written(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for path in (file, link):
        with pytest.raises(UserError, match=f"{path} cannot be written: File too large"):
            write_whole(path, bytes(LIMIT + 1))
        assert not path.exists()
        write_whole(path, b"short")
        assert path.read_bytes() == b"short"
    assert link.is_symlink()


def test_a_device_that_is_full_is_named_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(UserError, match=f"{link} cannot be written: No space left on device"):
        write_whole(link, b"x")
    assert link.is_symlink() and Path("/dev/full").is_char_device()


def test_a_file_is_moved_to_where_a_link_leads(tmp_path: Path) -> None:
    """Whether or not there is a file already; the link stays."""
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "link"
    elsewhere.mkdir()
    link.symlink_to(elsewhere / "file")
    for data in (b"first", b"second"):
        source = tmp_path / "source"
        source.write_bytes(data)
        move_whole(source, link)
        assert link.is_symlink() and not source.exists()
        assert [path.read_bytes() for path in elsewhere.iterdir()] == [data]


def test_what_cannot_be_moved_changes_nothing(tmp_path: Path) -> None:
    """Neither a file that is there, nor a folder or device, which must not be replaced by a file."""
    source, file, full = tmp_path / "source", tmp_path / "file", tmp_path / "full"
    source.write_bytes(b"new")
    file.write_bytes(b"old")
    full.symlink_to("/dev/full")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=f"{full} cannot be written: No space left on device"):
        move_whole(source, full)
    assert full.is_symlink() and Path("/dev/full").is_char_device()
    with pytest.raises(UserError, match="folder cannot be written: Is a directory"):
        move_whole(source, tmp_path / "folder")
    source.unlink()
    with pytest.raises(UserError, match=f"{file} cannot be written: No such file"):
        move_whole(source, file)
    assert file.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "full"]


def test_what_must_not_be_written_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    with pytest.raises(UserError, match="exists already"):
        write_whole(file, b"yours", force=False)
    assert file.read_bytes() == b"mine"
    with pytest.raises(UserError, match=f"{tmp_path} cannot be written: Is a directory"):
        write_whole(tmp_path, b"yours")


def test_of_two_runs_that_write_at_once_the_last_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    plain = Path.open

    def overtaken(path: Path, mode: str) -> IO[Any]:
        handle = plain(path, mode)
        with plain(path, "wb") as other:
            other.write(b"what the other run has to say")
        return handle

    monkeypatch.setattr(Path, "open", overtaken)
    write_whole(file, b"mine")
    monkeypatch.undo()
    assert file.read_bytes() == b"mine"


def test_what_cannot_be_encoded_is_replaced() -> None:
    assert readable("bad\udcff and \ud800, good é €") == "bad\ufffd and \ufffd, good é €"


def test_what_steers_a_terminal_or_breaks_a_picture_is_replaced() -> None:
    assert readable("a\x1b[2Jb\x00c\x9bd\uffffe") == "a\ufffd[2Jb\ufffdc\ufffdd\ufffde"
    assert readable("two\nlines\tand ü✓") == "two\nlines\tand ü✓"
