"""The drivers that the contract is checked on."""

from __future__ import annotations

import pytest

from gmlake._core import CudaDriver, Driver, SimulatedDriver
from gmlake.errors import DriverError


def why_no_device() -> str:
    """The reason why the contract cannot be checked on a CUDA device here; empty if it can."""
    try:
        CudaDriver(0)
    except DriverError as error:
        return str(error)
    return ""


REASON = why_no_device()
CUDA = pytest.param("cuda", marks=pytest.mark.skip(reason=REASON) if REASON else ())


@pytest.fixture(params=["simulated", CUDA])
def driver(request: pytest.FixtureRequest) -> Driver:
    """A driver with at least a few dozen granules of free memory."""
    return CudaDriver(0) if request.param == "cuda" else SimulatedDriver(capacity=64 << 20)
