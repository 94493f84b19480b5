"""A headless Chromium that a test drives over its debugging pipe: what a person sees and does with a page."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_LIMIT_S = 60.0
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
_PROBLEMS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


class Browser:
    """One page. `problems`: what the console said since the page was opened."""

    def __init__(self, profile: Path) -> None:
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        assert PROGRAM is not None
        given = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        command = ["bash", "-c", given, PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(command, pass_fds=(reads, writes), stderr=subprocess.DEVNULL)
        os.close(reads), os.close(writes)
        self._buffer, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to), os.close(self._from)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, answer["error"]
        return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + _LIMIT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            block = os.read(self._from, 1 << 20) if ready else b""
            assert block, "the browser does not answer"
            self._buffer += block
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path, width: int = 1200, scheme: str = "light", *, scripts: bool = True) -> None:
        """Show a file in a window of this width, and wait until it is loaded and drawn."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.resize(width, 1000)
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())
        if scripts:
            self.settle()

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def settle(self) -> None:
        """Wait until the page has drawn twice."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def mouse(self, *events: tuple[str, float, float]) -> None:
        """Each event: `Moved`, `Pressed` or `Released`, and where in the window."""
        for kind, x, y in events:
            button = {"button": "none"} if kind == "Moved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **button)
        self.settle()

    def picture(self, path: Path, height: int | None = None) -> None:
        """Save what is seen: the window, or so many pixels of the page from its top."""
        clip = (
            {"x": 0, "y": 0, "width": self.js("innerWidth"), "height": height, "scale": 1} if height else None
        )
        more = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        told = self.call("Page.captureScreenshot", format="png", **more)
        path.write_bytes(base64.b64decode(told["data"]))

    @property
    def problems(self) -> list[dict[str, Any]]:
        return [event["params"] for event in self._events if event.get("method") in _PROBLEMS]
