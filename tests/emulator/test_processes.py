"""NCCL's functions on the emulated device between real processes, which meet in shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.nccl import run_all, run_one


def test_values_are_exchanged(tmp_path: Path) -> None:
    run_all(
        f"session={tmp_path}",
        f"""
        comm = nccl.meet("{tmp_path}/id", ranks, rank)
        mine = np.arange(6, dtype=np.int32) + 10 * rank
        each = [np.arange(6, dtype=np.int32) + 10 * other for other in range(ranks)]
        source, target = nccl.put(mine), nccl.zeros(18, INT32)

        def result(name, *arguments):
            assert nccl.call(name, source, target, *arguments, comm, 0) == OK
            return np.array(target.values(), np.int32)

        assert (result("ncclAllReduce", 6, INT32, SUM)[:6] == sum(each)).all()
        assert (result("ncclAllReduce", 6, INT32, MAXIMUM)[:6] == each[2]).all()
        assert (result("ncclAllReduce", 6, INT32, PRODUCT)[:6] == each[0] * each[1] * each[2]).all()
        assert (result("ncclAllGather", 6, INT32) == np.concatenate(each)).all()
        assert (result("ncclReduceScatter", 2, INT32, SUM)[:2] == sum(each)[2 * rank : 2 * rank + 2]).all()
        assert (result("ncclBroadcast", 6, INT32, 1)[:6] == each[1]).all()
        got = result("ncclAlltoAll", 2, INT32)[:6]
        assert (got == np.concatenate([one[2 * rank : 2 * rank + 2] for one in each])).all()
        got = result("ncclGather", 6, INT32, 2)
        assert rank != 2 or (got == np.concatenate(each)).all()
        assert (result("ncclScatter", 2, INT32, 0)[:2] == each[0][2 * rank : 2 * rank + 2]).all()
        got = result("ncclReduce", 6, INT32, MINIMUM, 1)[:6]
        assert rank != 1 or (got == each[0]).all()
        assert nccl.call("ncclCommDestroy", comm) == OK
        """,
        3,
    )
    assert not list(tmp_path.glob("gmlake-*"))  # nothing stays behind


def test_sums_are_the_same_everywhere(tmp_path: Path) -> None:
    """In the order of the ranks, rounded once."""
    run_all(
        f"session={tmp_path}",
        f"""
        comm = nccl.meet("{tmp_path}/id", ranks, rank)
        each = [np.random.default_rng(other).standard_normal(999).astype(np.float32) for other in range(ranks)]
        buffer = nccl.put(each[rank])
        assert nccl.call("ncclAllReduce", buffer, buffer, 999, FLOAT32, SUM, comm, 0) == OK
        exact = each[0].astype(np.float64) + each[1] + each[2]
        assert buffer.values() == exact.astype(np.float32).tolist()
        operation = nccl.scaled_sum(ctypes.byref(ctypes.c_double(rank + 1)), FLOAT64, HOST, comm)
        one = nccl.put(np.array([1.0, 10.0]))
        assert nccl.call("ncclAllReduce", one, one, 2, FLOAT64, operation, comm, 0) == OK
        assert one.values() == [6.0, 60.0]
        """,
        3,
    )


@pytest.mark.parametrize("configuration", ["compute=1", ""])
def test_much_data_moves_only_when_values_are_computed(tmp_path: Path, configuration: str) -> None:
    run_all(
        f"session={tmp_path};{configuration}",
        f"""
        comm, count = nccl.meet("{tmp_path}/id", ranks, rank), 500_001
        mine = np.arange(count * 2, dtype=np.float32) % 1000 + rank
        source, target = nccl.put(mine), nccl.zeros(count * 2, FLOAT32)
        assert nccl.call("ncclAllReduce", source, target, count * 2, FLOAT32, SUM, comm, 0) == OK
        base = np.arange(count * 2) % 1000
        moved = target.values() == (2 * base + 1).tolist()
        assert moved if {bool(configuration)} else target.values() == [0] * (count * 2)
        assert nccl.call("ncclReduceScatter", source, target, count, FLOAT32, SUM, comm, 0) == OK
        assert nccl.call("ncclAllGather", target, target, count, FLOAT32, comm, 0) == OK
        assert nccl.call("ncclSend", source, count, FLOAT32, 1 - rank, comm, 0) == OK
        assert nccl.call("ncclRecv", target, count, FLOAT32, 1 - rank, comm, 0) == OK
        if {bool(configuration)}:
            assert target.values()[:count] == (base + 1 - rank)[:count].tolist()
            assert nccl.call("ncclAlltoAll", source, target, count, FLOAT32, comm, 0) == OK
            part = base[rank * count : (rank + 1) * count]
            assert target.values() == np.concatenate([part, part + 1]).tolist()
        """,
        2,
    )


def test_sends_do_not_wait(tmp_path: Path) -> None:
    run_all(
        f"session={tmp_path}",
        f"""
        comm, peer = nccl.meet("{tmp_path}/id", ranks, rank), 1 - rank
        for number in range(50):
            buffer = nccl.put(np.full(number + 1, 100 * rank + number, np.int32))
            assert nccl.call("ncclSend", buffer, number + 1, INT32, peer, comm, 0) == OK
        for number in range(50):
            target = nccl.zeros(number + 1, INT32)
            assert nccl.call("ncclRecv", target, number + 1, INT32, peer, comm, 0) == OK
            assert target.values() == [100 * peer + number] * (number + 1)
        """,
        2,
    )


def test_splits(tmp_path: Path) -> None:
    run_all(
        f"session={tmp_path}",
        f"""
        comm = nccl.meet("{tmp_path}/id", ranks, rank)
        colour = [0, 1, 0, -1][rank]
        part = nccl.made("ncclCommSplit", comm, ctypes.c_int(colour), ctypes.c_int(-rank))
        assert (part == 0) == (rank == 3)
        if part:
            buffer = nccl.put(np.array([rank + 1], np.int32))
            assert nccl.call("ncclAllReduce", buffer, buffer, 1, INT32, SUM, part, 0) == OK
            assert buffer.values() == [[4, 2, 4][rank]]
            assert nccl.asked("ncclCommUserRank", part) == [1, 0, 0][rank]  # by their keys
        if rank > 0:
            out, without = ctypes.c_size_t(), (ctypes.c_int * 1)(0)
            assert nccl.call("ncclCommShrink", comm, without, ctypes.c_int(1), ctypes.byref(out), 0, 0) == OK
            target, source = nccl.zeros(3, INT32), nccl.put(np.array([rank], np.int32))
            assert nccl.call("ncclAllGather", source, target, 1, INT32, out.value, 0) == OK
            assert target.values() == [1, 2, 3]
        """,
        4,
    )


def test_a_peer_that_died_is_named(tmp_path: Path) -> None:
    said = run_all(
        f"session={tmp_path}",
        f"""
        import os, signal
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        assert nccl.call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0) == OK
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        assert nccl.call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0) == REMOTE_ERROR
        assert nccl.asked("ncclCommGetAsyncError", comm) == REMOTE_ERROR
        assert nccl.call("ncclRecv", buffer, 4, INT32, 1, comm, 0) == REMOTE_ERROR
        """,
        3,
        fails=(1,),
    )
    for rank in (0, 2):
        (sentence,) = said[rank].splitlines()
        assert sentence.startswith("gmlake device: rank 1 (process ")
        assert sentence.endswith(f") is gone, so the all-reduce of rank {rank} cannot be completed")


def test_a_peer_that_leaves_is_named(tmp_path: Path) -> None:
    said = run_all(
        f"session={tmp_path}",
        f"""
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        if rank == 0:
            assert nccl.call("ncclRecv", buffer, 4, INT32, 1, comm, 0) == REMOTE_ERROR
        """,
        2,
    )
    assert "rank 1 (process" in said[0]


def test_different_calls_are_an_error(tmp_path: Path) -> None:
    said = run_all(
        f"session={tmp_path}",
        f"""
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        assert nccl.call("ncclAllReduce", buffer, buffer, 4 - rank, INT32, SUM, comm, 0) == INVALID_USAGE
        """,
        2,
    )
    assert "rank 0 asks for an all-reduce of 4 int32 while rank 1 asks for an all-reduce of 3 int32" in said[0]


def test_an_aborted_wait_ends(tmp_path: Path) -> None:
    run_all(
        f"session={tmp_path}",
        f"""
        import threading, time
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        if rank == 0:
            results = []
            wait = lambda: results.append(nccl.call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0))
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            assert nccl.call("ncclCommAbort", comm) == OK
            thread.join()
            assert results == [REMOTE_ERROR]
        else:
            time.sleep(1)
        """,
        2,
    )


def test_without_a_session_shared_memory_is_swept(tmp_path: Path) -> None:
    shared = Path("/dev/shm")
    before = set(shared.glob("gmlake-*"))
    text = f"""
        import os
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        assert nccl.call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0) == OK
        """
    run_all("", text + "os._exit(0)", 2)
    (tmp_path / "id").unlink()
    run_all("", text, 2)
    after = set(shared.glob("gmlake-*")) - before
    assert not [folder for folder in after if not Path("/proc", folder.name.split("-")[1]).exists()]  # others may live


def test_a_signal_ends_a_wait(tmp_path: Path) -> None:
    """Python's handlers run when the call returns, so it must."""
    run_all(
        f"session={tmp_path}",
        f"""
        import os, signal, threading, time
        comm, buffer = nccl.meet("{tmp_path}/id", ranks, rank), nccl.zeros(4, INT32)
        if rank == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have it ignore
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                nccl.call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0)
            except KeyboardInterrupt:
                sys.exit(0)
            sys.exit("not interrupted")
        time.sleep(2)
        """,
        2,
    )


def test_an_id_serves_once(tmp_path: Path) -> None:
    said = run_one(
        f"session={tmp_path}",
        """
        identity, handle = nccl.unique_id(), ctypes.c_size_t()
        nccl.call("ncclGroupStart")  # so that nobody waits for rank 1
        for expected in (OK, 2):
            assert nccl.library.ncclCommInitRank(ctypes.byref(handle), 2, identity, 0) == expected
        assert nccl.library.ncclCommInitRank(ctypes.byref(handle), 2, UniqueId(b"../x"), 0) == INVALID_ARGUMENT
        os._exit(0)
        """,
    )
    assert "rank 0 of this communicator was taken before" in said
