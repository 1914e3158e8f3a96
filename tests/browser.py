"""A headless Chromium that tests drive by the Chrome DevTools protocol, over a pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from threading import Timer
from typing import Any

CHROMIUM = shutil.which("chromium")
_SECONDS = 120.0
_WATCH = """
window.troubles = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  addEventListener(kind, (event) =>
    window.troubles.push(`${kind}: ${event.message || event.reason || event.blockedURI}`));
}
"""
_KEYS = {"Tab": 9, "Enter": 13, " ": 32}
"""The keys that can be pressed, with the numbers that Windows gives them."""


class Browser:
    """One window. profile: a folder for the browser's files."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs, self._to = _pipe()
        self._from, answers = _pipe()
        argv = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        pipes = [(os.POSIX_SPAWN_DUP2, theirs, 3), (os.POSIX_SPAWN_DUP2, answers, 4)]  # where Chromium expects them
        self._pid = os.posix_spawn(CHROMIUM, argv, os.environ, file_actions=quiet + pipes, setpgroup=0)
        os.close(theirs)
        os.close(answers)
        self._read = b""
        self._number = 0
        self._passed: list[str | None] = []  # the events that came before the last answer
        self._session: str | None = None
        (target,) = (one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a method of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        self._passed = []
        while (answer := self._next()).get("id") != self._number:
            self._passed.append(answer.get("method"))
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, file: Path, width: int = 1200, scheme: str = "light", media: str = "screen") -> None:
        """Load a page. scheme: the colours that the user prefers, light or dark. media: screen or print."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=f"file://{file}")
        loaded = "Page.loadEventFired" in self._passed
        while not loaded:
            loaded = self._next().get("method") == "Page.loadEventFired"

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def troubles(self) -> list[str]:
        """What went wrong in the page, what it loaded beside itself, and whether it scrolls sideways."""
        found: list[str] = self.evaluate(
            "[...window.troubles, ...performance.getEntriesByType('resource').map((one) => `loaded ${one.name}`)]"
        )
        root = "document.documentElement"
        return found + ["it scrolls sideways"] * self.evaluate(f"{root}.scrollWidth > {root}.clientWidth")

    def press(self, key: str) -> None:
        """Press and release a key, as a person does."""
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        names = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **names, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    def picture(self, file: Path) -> None:
        """Write a screenshot of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser, which ends by itself when its pipe is closed."""
        os.close(self._to)
        os.close(self._from)
        killer = Timer(_SECONDS, os.killpg, (self._pid, signal.SIGKILL))
        killer.start()
        os.waitpid(self._pid, 0)
        killer.cancel()

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._read:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._from], [], [], left)[0], "the browser does not answer"
            some = os.read(self._from, 1 << 16)
            assert some, "the browser has ended"
            self._read += some
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def _pipe() -> tuple[int, int]:
    """A pipe whose ends have numbers that stand in nobody's way, the end to read from first."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
