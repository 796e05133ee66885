"""What the page computes itself, in a real browser, is what Python says."""

import json

import numpy as np
import pytest

import mercer
from mercer import kernels as k
from mercer import report as rp
from mercer.estimators.reports.whatif import Live, low_rank, whatif_section
from mercer.report import live
from tests.browser import complaints, screen, until

pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")

CLOSE = dict(rtol=1e-6, atol=0)


def opened(browser, path):
    """The page from a file, its console empty, bands ready."""
    screen(browser, 1440)
    complaints(browser)
    browser.get(path.as_uri())
    waiting = "return document.querySelectorAll('[data-band=waiting]').length"
    until(lambda: browser.execute_script(waiting) == 0)


def put(browser, panel, column, value):
    """Type into the control of a column, or choose; `None` ticks empty."""
    box = browser.find_element("css selector", f'[data-panel="{panel}"] [data-column="{column}"]')
    if value is None:
        box.find_element("css selector", "[data-empty]").send_keys(" ")
        return
    browser.execute_script(
        "const e = arguments[0].querySelector('[data-value]'); e.value = arguments[1];"
        "e.dispatchEvent(new Event('input', {bubbles: true}));",
        box,
        value,
    )


def predicted(browser, panel):
    node = browser.find_element("css selector", f'[data-panel="{panel}"]')
    return json.loads(node.get_attribute("data-prediction"))


def test_cells_and_encoding_undo_each_other(model, table):
    X = model.posterior_.inputs.values
    names = [c.name for c in model.columns_.columns]
    cells = dict(zip(names, live.cells(model.columns_, X), strict=True))
    np.testing.assert_allclose(live.encoded(model.columns_, cells), X, rtol=1e-12, atol=1e-12)
    assert np.isnan(cells["age"]).sum() == np.isnan(table[0]["age"]).sum()


def test_sliders_move_the_prediction_to_what_python_says(model, browser, tmp_path):
    """Numbers, an empty cell, a category, a date; the band by the factor of a worker; no network, no word on
    the console.
    """
    path = tmp_path / "r.html"
    model.report(path)
    opened(browser, path)
    level = {"Bonn": "0", "Köln": "1", "Ulm": "2"}
    rows = [
        (5.0, 40.0, "Ulm", "2020-03-01"),
        (7.5, None, "Köln", "2021-01-31"),
        (2.0, 12.5, "Bonn", "2019-06-15"),
    ]
    for rooms, age, town, sold in rows:
        for column, value in enumerate([str(rooms), age if age is None else str(age), level[town], sold]):
            put(browser, "what-if", column, value)
        said = predicted(browser, "what-if")
        X = {
            "rooms": [rooms],
            "age": [np.nan if age is None else age],
            "town": [town],
            "sold": np.array([sold], dtype="datetime64[D]"),
        }
        lower, upper = model.predict_interval(X)
        np.testing.assert_allclose(
            [said["mean"], said["lower"], said["upper"]], [model.predict(X)[0], lower[0], upper[0]], **CLOSE
        )
    shown = browser.find_element("css selector", ".said .mean").text
    np.testing.assert_allclose(float(shown.replace(",", "")), said["mean"], rtol=1e-4)
    assert browser.find_element("css selector", ".curve svg path.band").is_displayed()
    assert complaints(browser) == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(url.startswith("blob:") for url in fetched)


def test_the_page_is_used_by_keyboard_and_follows_light_and_dark(model, browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    path = tmp_path / "r.html"
    model.report(path)
    opened(browser, path)
    before = predicted(browser, "what-if")["mean"]
    slider = browser.find_element("css selector", '[data-column="0"] [data-slide]')
    slider.send_keys(Keys.ARROW_RIGHT)
    assert predicted(browser, "what-if")["mean"] != before
    browser.find_element("css selector", ".controls button").send_keys(Keys.ENTER)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert predicted(browser, "what-if")["mean"] == before
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(colour)
    screen(browser, 1440, dark=True)
    dark = browser.execute_script(colour)
    assert light != dark
    browser.find_element("css selector", "#theme").send_keys(Keys.ENTER)
    assert browser.execute_script(colour) == light
    for width in (360, 1440):
        screen(browser, width)
        browser.execute_async_script("setTimeout(arguments[0], 200)")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        small = browser.execute_script(
            "return Math.min(...[...document.querySelectorAll('svg.chart text')]"
            ".filter(t => t.getClientRects().length).map(t => t.getBoundingClientRect().height))"
        )
        assert small > 8.0, width  # pixels of the smallest text in a chart
    assert complaints(browser) == []


KERNELS = {
    "matern": k.Matern([0.8, 1.5], 2.0, nu=1.5),
    "sum": k.SE(1.0).on(0) + k.Linear(0.3).on(1) + k.Constant(2.0),
    "product": 2.0 * k.RationalQuadratic(0.7, alpha=0.8) * k.Periodic(1.3, lengthscale=2.0).on(1),
    "others": k.Polynomial(2, 0.5, 0.1)
    + k.GammaExponential(0.9, gamma=1.4)
    + k.Matern(1.0, 0.5, nu=0.5).on(1),
}


@pytest.mark.slow
def test_probabilities_agree(browser, tmp_path):
    """Of two classes, by both links, averaged over the function; of three those at its mean."""
    rng = np.random.default_rng(9)
    X = rng.uniform(-1.0, 1.0, (36, 2))
    two = np.where(X[:, 0] + 0.3 * rng.normal(size=36) > 0, "yes", "no")
    three = np.where(X[:, 1] > 0.4, "up", two)
    quick = dict(max_evaluations=2)
    models = {
        "probit": mercer.GPClassifier(**quick).fit(X, two),
        "logit": mercer.GPClassifier(link="logit", **quick).fit(X, two),
        "three": mercer.GPClassifier(**quick).fit(X, three),
        "softmax": mercer.GPClassifier(multi_class="softmax", **quick).fit(X, three),
    }
    sections = []
    for name, model in models.items():
        labels = tuple(map(str, model.classes_))
        section = whatif_section(model.columns_, [Live("answer", model.posterior_, labels)])
        assert isinstance(section.parts[-1], rp.WhatIf), section.parts
        sections.append(rp.Section(name, name, section.parts))
    path = tmp_path / "classes.html"
    rp.Report("classes", "", tuple(sections)).save(path)
    opened(browser, path)
    for name, model in models.items():
        for column, value in enumerate((0.3, -0.7)):
            put(browser, name, column, str(value))
        how = "average" if name in ("probit", "logit") else "map"
        expected = model.predict_proba(np.array([[0.3, -0.7]]), how=how)[0]
        said = predicted(browser, name)["classes"]
        # two quadratures of three classes: tiny probabilities agree to 1e-9
        np.testing.assert_allclose(said, expected, rtol=1e-6, atol=1e-9, err_msg=name)
    assert complaints(browser) == []


@pytest.mark.slow
def test_kernels_noise_and_warps_agree(browser, tmp_path):
    """Panels of many models on one page: every kernel that the script knows, every warp, robust noise, means
    of several rows, and a stored variance of low rank.
    """
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (30, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=30)
    quick = dict(max_evaluations=2, progress=False)
    models = {name: mercer.GPRegressor(kernel, learn=False).fit(X, y) for name, kernel in KERNELS.items()}
    models["robust"] = mercer.GPRegressor(likelihood="student-t", **quick).fit(X, y)
    share = 1.0 / (1.0 + np.exp(-y))
    for warp, target in (
        ("log", np.exp(y)),
        ("logit", share),
        ("box-cox", np.exp(y)),
        ("yeo-johnson", y),
        ("tanh", y),
    ):
        models[warp] = mercer.GPRegressor(warp=warp, **quick).fit(X, target)
    sections = []
    for name, model in models.items():
        section = whatif_section(model.columns_, [Live("y", model.posterior_)])
        assert isinstance(section.parts[-1], rp.WhatIf), (name, section.parts)
        sections.append(rp.Section(name, name, section.parts))
    path = tmp_path / "many.html"
    rp.Report("many", "", tuple(sections)).save(path)
    opened(browser, path)
    for name, model in models.items():
        for row in ((0.3, -0.7), (-0.95, 0.2)):
            for column, value in enumerate(row):
                put(browser, name, column, str(value))
            said, at = predicted(browser, name), np.array([row])
            if name == "robust":  # its interval is that of the function
                mean, std = model.predict(at, return_std=True, latent=True)
                lower, upper = mean - live.Z95 * std, mean + live.Z95 * std
            else:
                mean, (lower, upper) = model.predict(at), model.predict_interval(at)
            found = [said["mean"], said["lower"], said["upper"]]
            np.testing.assert_allclose(
                found, [mean[0], lower[0], upper[0]], err_msg=name, rtol=1e-6, atol=1e-9
            )
    assert complaints(browser) == []


def test_a_stored_variance_is_as_close_as_it_says():
    """More rows than the page factors: means exact, the variance of low rank, its error told."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1.0, 1.0, (520, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=520)
    model = mercer.GPRegressor(k.Matern([0.6, 0.9], 1.0), noise_variance=0.01, learn=False).fit(X, y)
    A, pivots, error = low_rank(model.posterior_)
    Xs = rng.uniform(-1.0, 1.0, (200, 2))
    cross = np.asarray(model.kernel_(Xs, X[pivots]))
    about = 1.0 - np.einsum("mi,ij,mj->m", cross, A, cross) + 0.01
    exact = model.posterior_.variance(Xs)
    assert np.max(np.abs(np.sqrt(about / exact) - 1)) < 3 * np.max(error) + 1e-12
    assert np.max(error) < 0.05
    section = whatif_section(model.columns_, [Live("y", model.posterior_)])
    data = section.parts[-1].data
    assert data["functions"][0]["latents"][0]["precision"] is None
    assert "stored with rank" in data["about"] and f"{100 * np.max(error):.2g} %" in data["about"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (dict(kernel=k.NeuralNetwork()), "NeuralNetwork"),
        (dict(basis=mercer.means.Polynomial(1)), "sum of covariances"),
        (dict(mean=lambda X: X[:, 0]), "the mean Function"),
        (dict(likelihood="poisson"), "Poisson"),
    ],
)
def test_what_the_script_does_not_know_is_said(settings, why):
    rng = np.random.default_rng(7)
    X = rng.uniform(0.1, 1.0, (12, 2))
    y = rng.poisson(2.0, 12).astype(float)
    model = mercer.GPRegressor(max_evaluations=1, learn=False, **settings).fit(X, y)
    (text,) = whatif_section(model.columns_, [Live("y", model.posterior_)]).parts
    assert "There are no sliders here" in text.text and why in text.text


def test_too_many_rows_have_no_panel():
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(2001, 1))
    model = mercer.GPRegressor(k.SE(0.3), noise_variance=0.1, learn=False).fit(X, X[:, 0])
    (text,) = whatif_section(model.columns_, [Live("y", model.posterior_)]).parts
    assert "2,001 rows" in text.text
