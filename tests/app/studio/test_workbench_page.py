"""The workbench in a real browser: a table is brought, fitted, cancelled, compared and taken away."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.app.studio.test_page import CHOOSE, STICKING_OUT
from tests.browser import complaints, screen, until

pytestmark = pytest.mark.slow

STATES = """
const rows = [...document.querySelectorAll('#runs tbody tr')];
return rows.map(r => [r.cells[0].textContent, r.cells[2].textContent]);
"""
CELLS = """
return [...document.querySelectorAll('#columns tbody tr')].map(r => [...r.cells].map(c => c.textContent));
"""
EVIL = "<img src=x onerror=\"document.title='hit'\">"


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("tables") / "homes.csv"
    size, kind = rng.uniform(20, 200, 40).round(1), rng.choice(["a", EVIL], 40)
    price = (3 * size + 30 * (kind == "a") + rng.normal(0, 6, 40)).round(2)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["size", EVIL, "price"], *zip(size, kind, price, strict=True)])
    return path


@pytest.fixture(scope="module")
def bench(browser, address, homes):
    """The workbench with a table."""
    from selenium.webdriver.common.by import By

    screen(browser, 1440)
    browser.get("about:blank")
    browser.get(address)
    bench = Bench(browser, By.CSS_SELECTOR)
    until(lambda: bench.all("#tab-workbench"))
    bench.find("#tab-workbench").click()
    until(lambda: bench.all("#file"))
    complaints(browser)
    bench.find("#file").send_keys(str(homes))
    until(lambda: bench.all("#columns tbody tr"))
    yield bench
    assert not complaints(browser)
    assert browser.title == "Mercer studio"


class Bench:
    def __init__(self, driver, css):
        self.driver, self.css = driver, css

    def find(self, selector):
        return self.driver.find_element(self.css, selector)

    def all(self, selector):
        return self.driver.find_elements(self.css, selector)

    def fit(self, name, **options):
        for id_, value in options.items():
            self.driver.execute_script(CHOOSE, f"#{id_}", value)
        self.find("#run-name").send_keys(name)
        self.find("#fit").click()
        until(lambda: any(name in row.text for row in self.all("#runs tbody tr")))

    def state(self, name):
        return dict(self.driver.execute_script(STATES)).get(name)


@pytest.fixture(scope="module")
def done(bench):
    """After a fit."""
    bench.fit("plain")
    until(lambda: bench.state("plain") in ("done", "failed"), 180)
    assert bench.state("plain") == "done", bench.find("#run-card").text
    until(lambda: bench.all("iframe.report"))
    return bench


def test_columns_are_shown_as_they_are(bench):
    rows = bench.driver.execute_script(CELLS)
    assert [row[2] for row in rows] == ["size", EVIL, "price"]
    assert [row[3] for row in rows] == ["number", "text", "number"]
    assert EVIL in rows[1][5] and not bench.all("#columns img")
    assert len(bench.all("svg.bars")) == 2
    assert bench.find("#columns input[name=target]:checked").get_attribute("aria-label") == "Predict price"


def test_a_fit_and_its_report(done):
    text = done.find("#run-card").text
    assert "RMSE, left out" in text and "log evidence" in text
    assert done.find("#run-card svg.square").is_displayed()
    frame = done.find("iframe.report")
    assert frame.get_attribute("sandbox") == "allow-scripts allow-downloads"
    done.driver.switch_to.frame(frame)
    try:
        until(lambda: done.all("h1"))
        assert "price" in done.find("body").text and not done.all("img")
    finally:
        done.driver.switch_to.default_content()


def test_results_are_taken_away(done, downloads):
    import mercer

    folder = Path(downloads)
    names = {"Model": "plain.mercer", "Predictions": "plain-predictions.csv", "Report": "plain.html"}
    for link, name in names.items():
        done.find(f"#run-card a.button[data-what='{link}']").click()
        until((folder / name).is_file)
    until(lambda: (folder / "plain-predictions.csv").read_text().count("\n") == 41)
    assert mercer.load(folder / "plain.mercer").n_features_in_ == 2


def test_the_code_is_shown(done):
    done.find("#run-card details:has(#code) summary").click()  # chromium asks before it saves a .py
    until(lambda: "mercer.GPRegressor()" in done.find("#code").text)
    assert "pd.read_csv('homes.csv')" in done.find("#code").text


def test_cancelled_at_once_and_compared(done):
    done.fit("long", **{"kernel-kind": "search", "budget": "5min"})
    until(lambda: done.state("long") == "running")
    done.find("#cancel").click()
    until(lambda: done.state("long") == "cancelled", 5)
    done.fit("rough", **{"kernel-kind": "auto"})
    until(lambda: done.state("rough") in ("done", "failed"), 180)
    assert done.state("rough") == "done"
    until(lambda: len(done.all("#runs td.best")) == 1)


def test_errors_of_a_run_are_said(done):
    done.fit("wrong", **{"kernel-kind": "formula", "kernel-formula": "SE(l="})
    until(lambda: done.state("wrong") == "failed", 60)
    until(lambda: "cannot read the kernel" in done.find("#stage").text)
    done.driver.execute_script(CHOOSE, "#kernel-kind", "")


def test_a_table_that_is_none(bench, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("a,b\n1\n")
    bench.find("#file").send_keys(str(file))
    until(lambda: "line 2 has 1 cells" in bench.find("#data-error").text)
    assert all(
        "422" in line for line in complaints(bench.driver)
    )  # the browser itself notes what was refused


def test_by_keyboard(done):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    done.find("#columns input[name=target]:checked").send_keys(Keys.ARROW_UP)
    assert done.find("#columns input[name=target]:checked").get_attribute("aria-label") == f"Predict {EVIL}"
    assert done.find("[data-want=classification]").get_attribute("aria-checked") == "true"
    done.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert done.find("[data-want=regression]").get_attribute("aria-checked") == "true"
    done.find("[data-want=regression]").send_keys(Keys.ARROW_LEFT)
    assert done.find("[data-want=series]").get_attribute("aria-checked") == "true"
    done.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    done.find("#tab-workbench").send_keys(Keys.ARROW_LEFT)
    assert done.find("#playground").is_displayed()
    ActionChains(done.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert done.find("#workbench").is_displayed()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_sticks_out(done, width, dark):
    screen(done.driver, width, dark=dark)
    assert not done.driver.execute_script(STICKING_OUT)
    screen(done.driver, 1440)
