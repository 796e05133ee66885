"""The page: valid, self-contained, small, complete; what a person wrote in it is text and nothing else."""

import html
import itertools
import json
import re

import numpy as np
import pytest

import mercer
from mercer import report as rp

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">\u2028"\'&'

pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")


@pytest.fixture(scope="module")
def told(model):
    return model.report()


def valid(text: str) -> None:
    """No error of a strict HTML5 parser."""
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed: pip install 'mercer[test]'")
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    parser.parse(text)
    assert not parser.errors


def headings(text: str) -> list[int]:
    return [int(level) for level in re.findall(r"<h([1-6])[ >]", text)]


def test_the_page_is_valid_and_needs_nothing_else(told):
    text = told.html()
    valid(text)
    outside = re.findall(
        r'(?:src|href)\s*=\s*"([^"#][^"]*)"|url\(|@import|https?://(?!www\.w3\.org/2000/svg)', text
    )
    assert not outside
    assert "default-src 'none'" in html.unescape(text)
    assert len(text.encode()) < 400_000


def test_headings_go_down_one_at_a_time_and_ids_are_there_once(told):
    text = told.html()
    levels = headings(text)
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'aria-labelledby="([^"]+)"', text):
        assert set(target.split()) <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_it_answers_a_readers_questions_in_order(told):
    titles = [section.title for section in told.sections]
    assert titles == [
        "What was fitted",
        "The data",
        "What was learned",
        "Which columns matter",
        "How they matter",
        "How well rows are predicted",
        "Outliers",
        "How far to trust it",
        "What if",
        "How to reproduce it",
    ]


def test_axes_carry_the_names_of_the_columns(told, table):
    text = told.html()
    labels = re.findall(r'<text class="label mid"[^>]*>([^<]+)</text>', text)
    for name in (*table[0], "price (k€)"):
        assert name in labels
    assert "<title" in text and 'role="img"' in text
    assert not re.search(r"<svg(?![^>]*(role=\"img\"|aria-hidden))", text)


def test_tables_say_what_their_headings_are_of(told):
    text = told.html()
    assert text.count("<th>") == 0
    assert '<th scope="col"' in text and '<th scope="row"' in text


def test_the_same_model_gives_the_same_page_also_from_a_file(model, told, tmp_path):
    model.report(tmp_path / "r.html")
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.target_name_ == "price (k€)"
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == told.html()
    assert again.report().title == told.title


def test_it_is_written_whole_or_not_at_all(told, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("before")
    monkeypatch.setattr(rp.Report, "html", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        told.save(path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_what_people_write_is_text_everywhere():
    """In titles, charts, tables, controls, code, and in the numbers of the script."""
    rng = np.random.default_rng(1)
    n = 24
    X = {HOSTILE: rng.normal(size=n), "b": np.array([HOSTILE, "other"], dtype=object)[rng.integers(0, 2, n)]}
    y = X[HOSTILE] + (X["b"] == "other") + 0.1 * rng.normal(size=n)
    model = mercer.GPRegressor(max_evaluations=3).fit(X, y).name_target("y" + HOSTILE)
    model.name_rows([HOSTILE] * n)
    text = model.report().html()
    valid(text)
    assert text.count("<script") == 2  # the numbers, and the script
    assert "<img" not in text and 'onerror="' not in text
    inside = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.S)
    assert inside is not None and "<" not in inside[1] and "\u2028" not in inside[1]
    assert json.loads(inside[1])["what-if"]["columns"][0]["name"] == HOSTILE


def test_it_can_be_shown_in_parts(told):
    """As another page shows it: the body and the data are parts of the whole."""
    assert told.body().strip() in told.html()
    assert set(told.data()) == {"what-if"}
    frame = told._repr_html_()
    assert frame.startswith("<iframe") and frame.count("<") == 2 and "allow-same-origin" not in frame


@pytest.mark.parametrize("text", ["", "a", "ü" * 400])
def test_labels_of_any_length_fit(text):
    from mercer.report.charts import Plot, category_axis, number_axis

    plot = Plot(category_axis(text, [text, text + "b"]), number_axis(text, [0.0, 1e-300]))
    assert "nan" not in plot.bars([0], [1], [0.5]).svg(text, text)


def test_numbers_of_any_size_have_ticks():
    from mercer.report.charts import number_axis

    for values in ([0.0, 1e-9], [1e12, 1.0001e12], [-3.0, -3.0], [np.nan, 1.0], [], [-1e300, 1e300]):
        axis = number_axis("x", values)
        assert axis.low < axis.high and 2 <= len(axis.ticks) <= 12
        assert len({text for _, text in axis.ticks}) == len(axis.ticks), values


def test_ten_thousand_rows_stay_below_two_megabytes():
    """Points are thinned out by a stated rule; 20 columns, so that tables and effects are many."""
    rng = np.random.default_rng(2)
    n, d = 10_000, 20
    from mercer.estimators.reports import left_out as of_rows
    from mercer.estimators.reports.columns import data_table

    y = rng.normal(size=n)
    rows = of_rows.LeftOut(
        y,
        y + 0.1 * rng.normal(size=n),
        y - 1,
        y + 1,
        rng.normal(size=n),
        -np.ones(n),
        [str(i) for i in range(n)],
    )
    columns = mercer.columns.Columns.learn(rng.normal(size=(n, d)))
    figures = (of_rows.observed(rows, "y"), of_rows.residuals(rows, "y"), of_rows.standardised(rows))
    parts = [*data_table(columns, rng.normal(size=(n, d)), y, "y"), *figures]
    text = rp.Report("y", "", (rp.Section("a", "a", tuple(parts)),)).html()
    assert len(text.encode()) < 200_000
    assert "600 of 10,000 rows" in text
