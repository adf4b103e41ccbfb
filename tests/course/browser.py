"""Headless Chromium, a JupyterLab server, and what a page shows, does and asks for."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from chapter18._shared.children import Child, free_port

_RENDERING = (Path(__file__).parent / "rendering.js").read_text(encoding="utf-8")
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    # A container's root has no sandbox to enter, and nothing here needs the network.
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextlib.contextmanager
def chromium():
    """A playwright browser over the system's own Chromium; the test is skipped without one."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the browser is driven by playwright: pip install '.[test]'"
    )
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no browser to measure in: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(_QUIET), timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def jupyterlab(notebooks, state, css):
    """The address of a JupyterLab server over the folder `notebooks`, started as `make lab` does.

    `state` is an empty folder for all it writes, `css` the text of the custom style sheet.
    """
    config, port, token = state / "config", free_port(), secrets.token_hex(8)
    (config / "custom").mkdir(parents=True)
    (config / "custom" / "custom.css").write_text(css, encoding="utf-8")
    # Cells outside the window are drawn too, so that they can be measured without scrolling.
    settings = config / "lab/user-settings/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(
        json.dumps({"windowingMode": "none"}), encoding="utf-8"
    )
    with (
        open(state / "log", "w", encoding="utf-8") as log,
        Child(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--custom-css", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
                *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={notebooks}"),
                "--LabApp.expose_app_in_browser=True",
            ],
            env=os.environ | {"JUPYTER_CONFIG_DIR": str(config), "JUPYTER_DATA_DIR": str(state)},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        address = f"http://127.0.0.1:{port}"
        _await(f"{address}/api?token={token}", server, state / "log")
        yield f"{address}/lab?token={token}"


def _await(address, server, log, limit=300):
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + limit
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            direct.open(address, timeout=5).close()
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")


def new_page(browser, home, **options):
    """A page whose `faults` grow by a line for each error and each request beyond `home`."""
    page = browser.new_page(**options)
    page.set_default_timeout(60_000)
    page.faults = []
    kept = (home, home.replace("http:", "ws:"), "data:", "blob:")

    def on_console(line):
        if line.type == "error":
            page.faults.append(f"console: {line.text}")

    def on_request(request):
        if not request.url.startswith(kept):
            page.faults.append(f"request beyond this machine: {request.url}")

    page.on("console", on_console)
    page.on("request", on_request)
    page.on("pageerror", lambda error: page.faults.append(f"script error: {error}"))
    return page


def measure(page, prose, column):
    """What `rendering.js` finds in the page, as a dict of lists of faults, and its counts."""
    return page.evaluate(f"([prose, column]) => ({_RENDERING})(prose, column)", [prose, column])


CHECKS = ("code", "formulas", "direction", "alignment", "punctuation", "tables", "figures")


def faults_of(found):
    """The faults of all checks of `measure`."""
    return [fault for check in CHECKS for fault in found[check]]
