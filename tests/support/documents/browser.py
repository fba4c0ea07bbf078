# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over WebDriver's HTTP interface with the standard library alone."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
PATIENCE_SECONDS = 120.0


def missing() -> str:
    """What is not installed; empty: nothing."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium (Debian: apt-get install chromium chromium-driver)"
    if shutil.which("chromedriver") is None:
        return "no chromedriver (Debian: apt-get install chromium-driver)"
    return ""


class BrowserError(Exception):
    """The browser refused a command."""


class Browser:
    """One browser; a context manager that ends it."""

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        driver = shutil.which("chromedriver")
        assert driver is not None
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._url = f"http://127.0.0.1:{port}"
        try:
            self._wait()
            options = {
                "binary": next(filter(None, map(shutil.which, BROWSERS))),
                "args": [*FLAGS, f"--user-data-dir={self._folder.name}"],
            }
            capabilities = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            opened = self._post("/session", {"capabilities": {"alwaysMatch": capabilities}})
            self._url += f"/session/{opened['sessionId']}"
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, BrowserError):
            self._call("DELETE", "", None)
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        self._folder.cleanup()

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._call("GET", "/status", None)
                return
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def _post(self, path: str, data: Mapping[str, Any]) -> Any:
        return self._call("POST", path, data)

    def _call(self, method: str, path: str, data: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self._url + path,
            data=None if data is None else json.dumps(data).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(error.read().decode(errors="replace")[:500]) from None

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def view(self, page: Path, *, width: int, dark: bool = False, height: int = 900) -> None:
        """Show a file as a screen of some width does."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self._post("/url", {"url": page.resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, keys: str) -> None:
        """Type into what has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def console(self) -> list[str]:
        """Warnings and errors of the console since the last call."""
        found = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] in ("WARNING", "SEVERE")]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot as PNG, of the whole page or of the view."""
        shot = self.devtools(
            "Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        width, height = self.run(
            "const d = document.documentElement; return [d.clientWidth, d.scrollHeight]"
        )
        return {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
