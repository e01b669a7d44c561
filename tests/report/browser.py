"""Chromium without a window, spoken to over a pair of pipes: no driver program, no port, no package.

Messages are JSON, each ended by a zero byte (the DevTools protocol). One page is open at a time.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 60.0  # seconds for one answer, on a machine that is busy with other things
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "about:blank",
)


def find_chromium() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class PageError(Exception):
    """A script of the page failed, or the browser refused."""


class Browser:
    """A browser with one page: `complaints` has what the page complained about, `requests` what it asked for."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        """Start it and open an empty page."""
        program = find_chromium()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(prefix="gmlake-chromium-", ignore_cleanup_errors=True)
        self._read, theirs_out = os.pipe()
        theirs_in, self._write = os.pipe()
        self._number = 0
        self._buffer = b""
        self.complaints: list[str] = []
        self.requests: list[str] = []

        # The browser reads from descriptor 3 and writes to 4; bash puts them there whatever ours are.
        redirect = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, program, f"--user-data-dir={self._profile.name}", *_FLAGS],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self._profile.name},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        """It runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._notice(answer)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer within {PATIENCE} s")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise PageError("the browser has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _notice(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(details["exceptionDetails"]["exception"]["description"])
            case "Log.entryAdded":
                self.complaints.append(details["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])

    def resize(self, width: int, height: int, density: float = 1, phone: bool = False) -> None:
        """The size of the page, in its own pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": density, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """What the person has chosen in the system: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, path: Path) -> None:
        """Load a report and wait until it is drawn."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.documentElement?.dataset.ready === 'yes'")
        self.settle()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(str(found["exceptionDetails"].get("exception", found["exceptionDetails"])))
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Until it holds."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"{condition} did not come true; the page said {self.complaints}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Until two frames have been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def key(self, key: str, shift: bool = False) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **more)
        self.settle()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A mouse event, such as mouseMoved, at a point of the window."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """The page as a PNG file."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
