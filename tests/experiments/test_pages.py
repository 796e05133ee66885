"""The committed pages of results are what the experiments print today, to the digits on the page.

The quickest runs by default; those of some seconds are slow, those of minutes experiments.
"""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import experiments

PAGES = Path(__file__).parents[2] / "docs" / "results"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def unit(number: str) -> float:
    """One in the last place that is printed."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def differences(page: str, printed: str) -> list[str]:
    """Lines that are not the same: in words, or in a number by more than one in its last place."""
    before, after = page.splitlines(), printed.splitlines()
    if len(before) != len(after):
        return [f"{len(before)} lines on the page, {len(after)} printed"]
    found = []
    for old, new in zip(before, after, strict=True):
        numbers = list(zip(NUMBER.findall(old), NUMBER.findall(new), strict=False))
        near = all(abs(float(a) - float(b)) <= 1.001 * max(unit(a), unit(b)) for a, b in numbers)
        if NUMBER.sub("#", old) != NUMBER.sub("#", new) or not near:
            found.append(f"{old}\n  is now\n{new}")
    return found


def current(name: str, **options) -> None:
    printed = importlib.import_module(f"experiments.{name}").run(**options)
    found = differences((PAGES / f"{name}.md").read_text(), printed + "\n")
    assert not found, f"python -m experiments {name} now prints\n" + "\n".join(found)


def test_differences_are_seen():
    page = "| a | 1.23 | -0.5 % |\n| b | 1.5e+04 |\n"
    assert not differences(page, page)
    assert not differences(page, page.replace("1.23", "1.24"))  # what rounding may do
    for old, new in (
        ("1.23", "1.25"),
        ("-0.5", "0.5"),
        ("1.5e+04", "1.7e+04"),
        ("| a", "| c"),
        ("\n| b", ""),
    ):
        assert differences(page, page.replace(old, new)), (old, new)


def test_ebden_is_as_printed():
    current("ebden")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "robot_arm",
        "lengthscales",
        "step_function",
        "toy_classification",
        "book_figures",
        "local_optima",
        "gp_experts",
        "em_examples",
        "steps_ahead",
    ],
)
def test_quick_pages_are_as_printed(name, data_dir):
    current(name)


@pytest.mark.experiment
@pytest.mark.parametrize(
    "name",
    [
        "co2",
        "outlier_pictures",
        "spline_rates",
        "learning_curves",
        "asymptotics",
        "points",
        "oil_flow",
        "usps_methods",
        "svm_beside_gp",
    ],
)
def test_longer_pages_are_as_printed(name, data_dir):
    current(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "friedman_outliers",
        "boston_robust",
        "kuss_benchmarks",
        "certificates",
        "conformal",
        "mountain_car",
        "cart_pole",
        "planning_loop",
    ],
)
def test_pages_from_stored_scores_are_as_printed(name, tmp_path):
    """Of fits that take hours the scores are kept: the page is what they come to."""
    (tmp_path / f"{name}.jsonl").write_text((PAGES / f"{name}.jsonl").read_text())
    current(name, out=tmp_path, compute=False)


def test_every_experiment_has_a_page_that_is_listed_and_every_picture_is_on_one():
    names = [m.name for m in pkgutil.iter_modules(experiments.__path__) if not m.name.startswith("_")]
    listed = (PAGES / "README.md").read_text()
    for name in names:
        assert (PAGES / f"{name}.md").exists() and f"[{name}]({name}.md)" in listed, name
    shown = set(re.findall(r"\]\(([\w.]+\.png)\)", "".join(p.read_text() for p in PAGES.glob("*.md"))))
    drawn = {path.name for path in PAGES.glob("*.png")}
    assert shown == drawn, shown ^ drawn
