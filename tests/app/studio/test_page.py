"""The playground in a real browser: as people use it, with mouse and keyboard, on small and large screens."""

from __future__ import annotations

import json

import pytest

from tests.browser import complaints, screen, until

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser, address):
    from selenium.webdriver.common.by import By

    screen(browser, 1440)
    browser.get("about:blank")
    browser.get(address)
    page = Page(browser, By)
    page.settle(0)
    complaints(browser)
    yield page
    assert not complaints(browser)


class Page:
    def __init__(self, driver, by):
        self.driver, self.by = driver, by

    def find(self, selector):
        return self.driver.find_element(self.by.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(self.by.CSS_SELECTOR, selector)

    def settled(self):
        return int(self.driver.execute_script("return document.body.dataset.settled ?? 0"))

    def settle(self, before):
        """Wait until the answer to what was last changed is shown."""
        return until(lambda: (now := self.settled()) > before and now)

    def after(self, change):
        before = self.settled()
        change()
        self.settle(before)

    def choose(self, selector, value):
        self.after(lambda: self.driver.execute_script(CHOOSE, selector, value))

    @property
    def evidence(self):
        return self.find("#evidence").text

    @property
    def points(self):
        return len(self.all("circle.point"))

    def click(self, dx, dy):
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver).move_to_element_with_offset(self.find("#plot svg"), dx, dy)
        self.after(chain.click().perform)


def test_clicking_dragging_and_deleting_points(page):
    from selenium.webdriver import ActionChains

    before, n = page.evidence, page.points
    page.click(30, -60)
    assert page.points == n + 1 and page.evidence != before
    before = page.evidence
    page.after(ActionChains(page.driver).drag_and_drop_by_offset(page.all("circle.point")[-1], 0, 90).perform)
    assert page.points == n + 1 and page.evidence != before
    page.after(ActionChains(page.driver).double_click(page.all("circle.point")[-1]).perform)
    assert page.points == n


def test_another_kernel_another_evidence(page):
    before = page.evidence
    page.choose("#add-term", "Linear()")
    assert page.find("#formula").get_attribute("value") == "SE(l=1) + Linear()" and page.evidence != before
    assert len(page.all(".term")) == 2
    page.choose(".term:last-of-type select", "Periodic(period=2, l=1)")
    assert page.find("#formula").get_attribute("value") == "SE(l=1) + Linear() * Periodic(period=2, l=1)"
    page.after(page.all(".term:last-of-type .factor-head button")[1].click)
    page.after(page.all(".term:last-of-type .factor-head button")[0].click)
    assert page.find("#formula").get_attribute("value") == "SE(l=1)" and page.evidence == before


def test_the_formula_can_be_typed_and_errors_are_said(page):
    from selenium.webdriver.common.keys import Keys

    box, error = page.find("#formula"), page.find("#formula-error")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("Matern(nu=1.5) * SE(")
    until(lambda: "cannot read" in error.text)
    box.send_keys("l=3)")
    until(lambda: [b.text for b in page.all(".factor-head b")] == ["Matern", "SE"])
    assert not error.is_displayed()
    assert all("422" in line for line in complaints(page.driver))  # the browser itself notes what was refused


def test_sliders_and_learning(page):
    from selenium.webdriver.common.keys import Keys

    before = page.evidence
    slider = page.find("[data-name='kernel.lengthscale']")
    page.after(lambda: slider.send_keys(Keys.ARROW_RIGHT * 5))
    assert page.evidence != before and page.find("#formula").get_attribute("value") != "SE(l=1)"
    by_hand = float(page.evidence.replace("−", "-"))
    page.after(page.find("#learn").click)
    assert float(page.evidence.replace("−", "-")) > by_hand


def test_classes_and_outliers(page):
    page.choose("#examples", "Two classes")
    assert page.find("[data-task=classification]").get_attribute("aria-checked") == "true"
    assert page.all("circle.class0") and page.all("circle.class1") and not page.all(".band-y")
    page.choose("#examples", "Outliers")
    assert len(page.all("circle.outlier")) == 3
    page.after(page.find("[data-task=regression]").click)
    assert not page.all("circle.outlier")


def test_draws(page):
    page.after(page.find("#again").click)
    assert len(page.all("path.draw")) == 5
    first = page.find("path.draw").get_attribute("d")
    page.choose("#of", "prior")
    assert page.find("path.draw").get_attribute("d") != first


def test_by_keyboard_alone(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        page.after(ActionChains(page.driver).send_keys(*keys).perform)

    page.find("#examples").send_keys(Keys.TAB)  # to Clear, Learn, then the chosen point
    ActionChains(page.driver).send_keys(Keys.TAB, Keys.TAB).perform()
    focused = page.driver.switch_to.active_element
    assert "point 1 of" in focused.get_attribute("aria-label")
    x, y = (float(focused.get_attribute(name)) for name in ("cx", "cy"))
    press(Keys.ARROW_UP)
    press(Keys.ARROW_RIGHT)
    assert float(focused.get_attribute("cx")) > x and float(focused.get_attribute("cy")) < y
    ActionChains(page.driver).send_keys(Keys.PAGE_DOWN).perform()
    assert "point 2 of" in page.driver.switch_to.active_element.get_attribute("aria-label")
    n = page.points
    press(Keys.DELETE)
    assert page.points == n - 1
    press(Keys.ENTER)
    assert page.points == n


def test_the_table_of_points(page):
    page.find("#points-card summary").click()
    n = page.points
    x, y = page.find("#add-point [name=x]"), page.find("#add-point [name=y]")
    x.send_keys("7.5")
    y.send_keys("1")
    page.after(page.find("#add-point button").click)
    assert page.points == n + 1
    assert page.driver.execute_script(LARGEST_TICK) > 7
    page.after(page.find("#points tbody tr:last-child button").click)
    assert page.points == n


def test_a_link_brings_the_state_back(page):
    page.choose("#examples", "Trend and season")
    evidence, formula = page.evidence, page.find("#formula").get_attribute("value")
    link = until(lambda: "#p=" in (url := page.driver.current_url) and url)
    assert "token" not in link
    page.driver.get("about:blank")
    page.driver.get(link)
    page.settle(0)
    assert (page.evidence, page.find("#formula").get_attribute("value")) == (evidence, formula)


def test_a_link_that_is_none_does_no_harm(page):
    import base64

    kernel = "<img src=x onerror=document.title='hit'>"
    evil = {"task": "<b>", "points": [["x", 1], [0, 1]], "kernel": kernel, "view": [3, 1]}
    text = base64.urlsafe_b64encode(json.dumps(evil).encode()).decode().rstrip("=")
    url = page.driver.current_url.split("#")[0]
    page.driver.get("about:blank")
    page.driver.get(f"{url}#p={text}")
    page.settle(0)
    assert "<img" in page.find("#formula-error").text and page.driver.title == "Mercer studio"
    assert page.points == 1 and not page.all("#formula-error img")
    complaints(page.driver)  # the browser itself notes the refusal


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_sticks_out_and_text_can_be_read(page, width, dark):
    screen(page.driver, width, dark=dark)
    assert not page.driver.execute_script(STICKING_OUT)
    assert page.driver.execute_script(CONTRAST) > 4.5


CHOOSE = """
const s = document.querySelector(arguments[0]);
s.value = arguments[1];
s.dispatchEvent(new Event('change'));
"""
LARGEST_TICK = """
return Math.max(...[...document.querySelectorAll('#plot text')].map(t => +t.textContent || 0));
"""
STICKING_OUT = """
return [...document.querySelectorAll('main *')]
  .filter(e => e.checkVisibility() && !e.closest('.visually-hidden, .scroll, svg'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80));
"""
CONTRAST = """
const shade = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const card = shade(getComputedStyle(document.querySelector('.card')).backgroundColor);
const ratios = [...document.querySelectorAll(
  '#playground .hint, #playground .name, #playground label, #playground output, #playground h2')]
  .filter(e => e.checkVisibility()).map(e => shade(getComputedStyle(e).color))
  .map(s => (Math.max(s, card) + .05) / (Math.min(s, card) + .05));
return Math.min(...ratios);
"""
