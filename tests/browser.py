"""A real browser for tests: Debian's chromium, driven by its chromedriver; without them tests are skipped."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--no-first-run",
)  # fmt: skip


@contextlib.contextmanager
def opened(downloads: str | None = None) -> Iterator[Any]:
    """A driver of selenium's; `downloads`: the folder that files are saved to."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, of the extra 'test'")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs a browser: chromium and chromedriver (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in QUIET:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": downloads})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield made
    finally:
        made.quit()


def screen(driver: Any, width: int, height: int = 900, dark: bool = False) -> None:
    """The size of the page, and which colours its reader prefers."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def complaints(driver: Any) -> list[str]:
    """Errors and warnings of the console since it was last asked."""
    return [
        entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ]


def until(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What is asked, as soon as it is true; a part of the page that is being replaced is looked at again."""
    from selenium.common.exceptions import StaleElementReferenceException

    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(StaleElementReferenceException):
            if found := what():
                return found
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
