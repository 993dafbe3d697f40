"""A real browser for tests: Chromium without a window, as Debian packages it, and its driver."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import pytest

from tests.console.http.served import PATIENCE_S
from tests.harness.wait import wait_until

PROGRAMS = ("chromium", "chromedriver")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None] + [
    name for name in ("selenium",) if importlib.util.find_spec(name) is None
]
NIGHTLY = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(MISSING), reason=f"no browser to drive: {', '.join(MISSING)} missing"),
]


class Browser:
    """Chromium without a window, and what its console said."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver: Any = webdriver.Chrome(options, Service(shutil.which("chromedriver")))

    def open(self, address: str, width: int = 1200, dark: bool = False) -> None:
        """This page, of which no script of its own is left to load."""
        command = self.driver.execute_cdp_cmd
        sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        command("Emulation.setDeviceMetricsOverride", sizes)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(address)

    def js(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element has this text."""
        script = "[...document.querySelectorAll(arguments[0])].map((e) => e.textContent).join('|')"
        wait_until(lambda: text in self.js(script, selector), PATIENCE_S, f"{text!r} in {selector}")

    def keys(self, *keys: str) -> None:
        """To whatever has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """Of the browser, since the last call; not of pages that are not there."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if "the server responded with a status of 404" not in entry["message"]
        ]
