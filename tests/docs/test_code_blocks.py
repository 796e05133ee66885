"""Every block of code in README and docs runs as it stands, one after the other, in an empty folder.

Python blocks of a page share their names. Of bash blocks the `mercer` commands run, on the files of `FILES`.
"""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import mercer as mc
from mercer.app.cli import main
from mercer.app.tables import write_table

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BUDGET = re.compile(r"""(budget(?:="|\s))\d+s""")


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, code, lines before it) of the blocks of a page. Where `assess` is offered a minute it is
    given two seconds: that it runs is tried here, what it finds elsewhere.
    """
    text = page.read_text(encoding="utf-8")
    found = [(block[1], block[2], text[: block.start(2)].count("\n")) for block in BLOCK.finditer(text)]
    return [(language, BUDGET.sub(r"\g<1>2s", code), before) for language, code, before in found]


def pages() -> list:
    """README runs with the fast tests, every other page that has code with the slow ones."""
    others = [
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    found = [page for page in others if page.exists() and blocks(page)]
    names = [page.relative_to(ROOT).as_posix() for page in found]
    return ["README.md", *(pytest.param(name, marks=pytest.mark.slow) for name in names)]


# -- the files that commands read ----------------------------------------------------------------------------


def table():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, 40))
    rows = np.column_stack([a, b, np.sin(a) + 0.1 * rng.standard_normal(40)])
    np.savetxt("data.csv", rows, delimiter=",", header="a,b,y", comments="")
    np.savetxt("new.csv", rows[:5, :2], delimiter=",", header="a,b", comments="")


def houses():
    rng = np.random.default_rng(0)
    rooms, age = rng.integers(2, 9, 40), rng.uniform(0, 60, 40).round(1)
    price = (100 + 40 * rooms - 1.2 * age + 10 * rng.standard_normal(40)).round(1)
    write_table("houses.csv", {"rooms": rooms, "age": age, "price": price})
    write_table("new.csv", {"rooms": [5, 3], "age": [30, 12]})
    two_series()
    Path("space.toml").write_text("[space]\nx = [-5.0, 10.0]\ny = [0.0, 15.0]\n")
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    Path("options.toml").write_text(page.split("```toml\n")[1].split("```")[0])


def instruments():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, 40))
    y, sd = np.sin(a) + 0.1 * rng.standard_normal(40), rng.uniform(0.05, 0.2, 40)
    rows = list(zip(a, b, sd, np.resize(["old", "new"], 40), y, strict=True))
    Path("data.csv").write_text(
        "\n".join(["a,b,sd,instrument,y", *(",".join(map(str, row)) for row in rows)])
    )
    pupils = [f"{age:.2f},{i % 8},{i % 8 + age:.2f}" for i, age in enumerate(rng.uniform(6, 12, 40))]
    Path("pupils.csv").write_text("\n".join(["age,school,score", *pupils]))
    new = [f"{row[0]},{row[1]},{row[3]}" for row in rows[:5]]
    Path("new.csv").write_text("\n".join(["a,b,instrument", *new]))


def other_targets():
    rng = np.random.default_rng(0)
    x, n = np.linspace(0.0, 3.0, 24), 24
    rate, some = np.exp(np.sin(2 * x)), rng.integers(3, 9, n)
    time, level = rate * rng.weibull(2.0, n), np.sin(2 * x) + 0.1 * rng.standard_normal(n)
    for name, columns in {
        "faults.csv": {"x": x, "days": some, "faults": rng.poisson(some * rate)},
        "quiz.csv": {"x": x, "questions": some, "right": rng.binomial(some, rate / 3)},
        "study.csv": {"x": x, "died": (time < 1.5).astype(int), "time": np.minimum(time, 1.5)},
        "water.csv": {
            "x": x,
            "limit": np.where(level < -0.5, -0.5, np.nan),
            "arsenic": np.where(level < -0.5, np.nan, level),
        },
        "new.csv": {"x": x[:3]},
    }.items():
        write_table(Path(name), columns)


def plants():
    rng = np.random.default_rng(0)
    height, leaf = rng.normal(60, 15, 60), rng.normal(5, 1.5, 60)
    code = (leaf + 0.02 * height + 0.5 * rng.standard_normal(60) > 6.2).astype(int)
    rows = zip(height, leaf, np.array(["grass", "reed"])[code], code, strict=True)
    lines = [f"{h:.2f},{width:.2f},{name},{c}" for h, width, name, c in rows]
    Path("plants.csv").write_text("\n".join(["height,leaf,species,code", *lines]))


def two_series():
    rng, t = np.random.default_rng(0), np.arange(60)
    months = np.datetime_as_string(np.datetime64("2018-01") + t, unit="D")
    days = np.datetime_as_string(np.datetime64("2021-01-01") + t, unit="D")
    sales = 50 + 0.3 * t + 5 * np.sin(2 * np.pi * t / 12) + rng.standard_normal(60)
    for name, header, stamps, values in [
        ("sales.csv", "month,sales", months, sales),
        ("counts.csv", "day,accidents", days, rng.poisson(3 + t % 7)),
        ("shop.csv", "day,sold,price", days, [f"{10 - p},{p}" for p in rng.uniform(2, 3, 60)]),
        ("prices.csv", "day,price", ["2021-03-02"], [2.5]),
        ("holidays.csv", "name,date", ["fair"], ["02-01"]),
    ]:
        rows = [f"{stamp},{value}" for stamp, value in zip(stamps, values, strict=True)]
        Path(name).write_text("\n".join([header, *rows]))


def search():
    columns = "x = [-5.0, 10.0]\ndepth = [1, 8]\nrate = {low = 1e-5, high = 1e-1, log = true}\n"
    Path("space.toml").write_text(f'maximise = true\n[space]\n{columns}kind = ["a", "b"]\n')
    Path("tried.csv").write_text("x,depth,rate,kind,value\n1.5,3,0.01,a,2.5\n2.5,4,0.01,b,\n")
    Path("simulate").write_text("#!/bin/sh\necho $1\n")
    Path("simulate").chmod(0o755)


def sales():
    month = np.arange(60.0)
    rows = np.column_stack([month, 0.2 * month + np.sin(2 * np.pi * month / 12)])
    np.savetxt("sales.csv", rows, delimiter=",", header="month,sales", comments="")


FILES = {
    "README.md": table,
    "docs/classification.md": plants,
    "docs/cli.md": houses,
    "docs/explain.md": table,
    "docs/optimise.md": search,
    "docs/report.md": houses,
    "docs/robust.md": table,
    "docs/search.md": sales,
    "docs/tables.md": instruments,
    "docs/targets.md": other_targets,
    "docs/timeseries.md": two_series,
}

# -- what a page must have found -----------------------------------------------------------------------------


def readme(names):
    assert {3, 17} <= set(names["robust"].outliers_.rows)
    low, high = names["sparse"].posterior_.evidence_bounds()
    assert low <= high
    assert np.abs(names["post"].mean(names["Xs"]) - np.sin(2 * names["Xs"][:, 0])).mean() < 0.2
    assert Path("predictions.csv").exists()


def series(names):
    assert (np.abs(names["fit"].model.ar - [0.5, 0.3]) < 3 * names["fit"].standard_errors).all()
    assert np.abs(names["signal"].mean - np.sin(names["t"][:, 0] / 8)).mean() < 0.4
    assert np.abs(names["curve"] - np.sin(names["xs"]))[5:-5].max() < 0.3
    assert names["mean"][0] == pytest.approx(1.0, abs=0.2)


def robust(names):
    assert {10, 40, 41, 70} == set(names["best"].outliers_.rows) <= set(names["model"].outliers_.rows)


def large(names):
    low, high = names["post"].evidence_bounds()
    assert low <= high


def em(names):
    assert names["clf"].score(names["sequences"], names["labels"]) >= 0.8  # classes that overlap
    assert names["model"].responsibilities_.shape == (60, 2)


def timeseries(names):
    assert len(names["ts"].anomalies_) >= 1
    assert abs(names["daily"].effects_["size"]["price"] + 3) < 0.5 and names["paths"].shape == (500, 7)
    assert Path("next.csv").exists() and Path("next.png").exists()


def classification(names):
    far = names["model"].predict_proba(names["far"])[1]
    assert far == pytest.approx(1 / 3, abs=0.1)
    assert names["rare"].sum() <= names["caught"].sum() and names["wrong"].mean() < 0.4
    assert mc.load("codes.mercer").classes_.tolist() == [0, 1]


def extending(names):
    assert names["fit"].status.converged
    assert 0.8 < np.mean((names["low"] < names["y"]) & (names["y"] < names["high"])) < 1.0


def optimise(names):
    assert names["best"].outcomes["weight"] <= 8.0 and len(names["front"].rows) > 1
    assert len(mc.load("space.mercer").history) == 14


CHECKS = {
    "README.md": readme, "docs/series.md": series, "docs/robust.md": robust, "docs/large.md": large,
    "docs/em.md": em, "docs/timeseries.md": timeseries, "docs/extending.md": extending,
    "docs/classification.md": classification, "docs/optimise.md": optimise,
}  # fmt: skip

# -- running them --------------------------------------------------------------------------------------------


def run_commands(code: str, monkeypatch) -> None:
    """The `mercer` commands of a bash block; others (pip, pytest, benchmarks) are not for a test, and
    servers, which run until they are stopped, have tests of their own.
    """
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != ["mercer"] or words[1:2] in (["serve"], ["studio"]):
            continue
        monkeypatch.setattr(sys, "argv", words)
        with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, line


@pytest.mark.parametrize("name", pages())
def test_every_block_runs(name, tmp_path, monkeypatch):
    page = ROOT / name
    if not page.exists():
        pytest.skip("the page is only in a source checkout")
    monkeypatch.chdir(tmp_path)
    FILES.get(name, lambda: None)()
    names: dict = {"__name__": "page"}
    for language, code, before in blocks(page):
        if language == "bash":
            run_commands(code, monkeypatch)
        else:
            exec(compile("\n" * before + code, str(page), "exec"), names)
    plt.close("all")
    CHECKS.get(name, lambda names: None)(names)


def test_pages_with_a_check_exist():
    found = {getattr(page, "values", (page,))[0] for page in pages()}
    assert found >= CHECKS.keys() | FILES.keys()
