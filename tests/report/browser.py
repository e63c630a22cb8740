"""A headless Chromium, driven through chromedriver's WebDriver protocol (plain JSON over HTTP)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--no-first-run",
    # no name resolves, so that a page which needs the network cannot work by accident
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost",
)


def obstacle() -> str | None:
    """Why there is no browser here; None when there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} here: apt-get install chromium chromium-driver"
    return None


class Browser:
    """One page in a fresh profile, as a context manager."""

    def __init__(self, profile: Path) -> None:
        self.profile = profile

    def __enter__(self) -> Browser:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._driver = subprocess.Popen(
            [str(shutil.which("chromedriver")), f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self.profile)},
        )
        self._url = f"http://127.0.0.1:{port}/session"
        arguments = [*FLAGS, f"--user-data-dir={self.profile / 'data'}", "--window-size=1500,950"]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        try:
            session = self._post("", {"capabilities": {"alwaysMatch": wanted}}, wait=60)
        except BaseException:
            self._driver.kill()
            raise
        self._url += "/" + session["sessionId"]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._request("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(20)

    def open(self, page: Path) -> None:
        self._page = {"url": page.resolve().as_uri()}
        self._post("/url", self._page)

    def open_again(self) -> None:
        self._post("/url", self._page)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script's ``return`` gives, in the page."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, *arguments: Any, seconds: float = 30) -> Any:
        """Run a script until it returns something true."""
        deadline = time.monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.1)
        return found

    def prefer(self, scheme: str = "light", media: str = "") -> None:
        """Show the page to who prefers a light or a dark one, or as it would be printed."""
        wanted = {"name": "prefers-color-scheme", "value": scheme}
        given = {"media": media, "features": [wanted]}
        self._post("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": given})

    def messages(self) -> list[str]:
        """Errors that the page reported, failed requests among them."""
        log = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def _post(self, path: str, body: Any, wait: float = 0) -> Any:
        deadline = time.monotonic() + wait
        while True:
            try:
                return self._request("POST", path, body)
            except urllib.error.URLError as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise RuntimeError(error.read().decode(errors="replace")[:2000]) from None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=120
        ) as answer:
            return json.load(answer)["value"]
