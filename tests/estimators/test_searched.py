"""mercer.search, GPRegressor(kernel="search") and `mercer fit --kernel search`."""

import time

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import write_table
from mercer.structure.beam import Search

RNG = np.random.default_rng(0)
T = np.arange(60.0)
Y = 0.1 * T + np.sin(2 * np.pi * T / 12) + 0.2 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def found():
    return mc.search(T[:, None], Y, max_models=26, likelihood="gaussian")


def test_trend_and_season(found):
    """The winner's score is its evidence less what it and the choice cost; it is what the model is."""
    best = found.best
    assert best.sentence == "linear(0) + periodic(0)" and "a season of x0 (period 1" in best.words
    assert sum(found.ranking.seen.values()) == 26 and found.ranking.ended == "max-models"
    charge = 0.5 * best.parameters * np.log(60) + np.log(found.ranking.seen[2])
    assert best.score == pytest.approx(best.log_evidence - charge)
    assert found.model.log_marginal_likelihood_ == pytest.approx(best.log_evidence, abs=0.5)
    assert best.left_out == pytest.approx(found.model.loo().log_density.sum(), abs=1.0)
    scores = [model.score for model in found.ranking.models]
    assert scores == sorted(scores, reverse=True)
    text = str(found)
    assert text.startswith("26 models seen") and "a straight line in x0 + a season" in text
    (note,) = [note for note in found.model.posterior_.notes if note.startswith("kernel='search'")]
    assert best.words in note and note in found.model.summary()


@pytest.mark.slow
def test_it_is_repeated_saved_and_loaded(found, tmp_path):
    again = mc.GPRegressor(kernel="search", max_models=26, parallel=2).fit(T[:, None], Y)
    assert [m.score for m in again.search_.models] == [m.score for m in found.ranking.models]
    again.save(tmp_path / "m.mercer")
    loaded = mc.load(tmp_path / "m.mercer")
    assert loaded.search_ == again.search_ and str(loaded.kernel_) == str(again.kernel_)
    np.testing.assert_allclose(loaded.predict(T[:5, None] + 70), found.model.predict(T[:5, None] + 70))


def test_noise_stays_a_constant():
    kept = [
        mc.search(T[:, None], np.random.default_rng(seed).normal(size=60), max_models=6).best.sentence
        for seed in range(3)
    ]
    assert kept == ["constant"] * 3


def test_the_budget_ends_it_with_the_best_so_far():
    began = time.perf_counter()
    model = mc.GPRegressor(kernel="search", budget=1.0).fit(T[:, None], Y)
    assert model.search_.ended == "budget" and model.search_.seconds <= time.perf_counter() - began
    assert "the budget ended" in str(model.search_) and np.isfinite(model.predict(T[:2, None])).all()


def test_ctrl_c_keeps_the_best(monkeypatch):
    climb, calls = Search._climb, []

    def interrupted(self, *given):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        climb(self, *given)

    monkeypatch.setattr(Search, "_climb", interrupted)
    ranking = mc.search(T[:, None], Y, max_models=26, likelihood="gaussian").ranking
    assert ranking.ended == "interrupted" and len(ranking.models) > 1


def test_columns_of_a_table(tmp_path):
    """A category is one column; names are those of the table. By the command line."""
    city = np.array(["a", "b", "c"], object)[np.arange(40) % 3]
    x = RNG.uniform(0, 3, 40)
    y = 2 * x + np.array([0.0, 3.0, -3.0])[np.arange(40) % 3] + 0.1 * RNG.normal(size=40)
    write_table(tmp_path / "data.csv", {"x": x, "city": city, "y": y})
    arguments = ["fit", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "m.mercer"]
    run = lambda *more: CliRunner().invoke(app, [str(a) for a in (*arguments, *more)])  # noqa: E731
    result = run("--kernel", "search", "--max-models", 8)
    assert result.exit_code == 0, result.output
    assert "8 models seen" in result.output and "function of x and city together" in result.output
    assert "--kernel search" in run("--budget", "60s").output
    refused = run("--kernel", "search", "--classify")
    assert refused.exit_code == 1 and "numeric targets" in refused.output


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"objective": "loo"}, "compares evidences"),
        ({"noise_variance": 0.1}, "does not go with noise_variance"),
        ({"likelihood": "poisson"}, "'student-t' or 'auto'"),
        ({"mean": mc.param(0.0)}, "not learned"),
        ({"monotone": {0: 1}}, "'auto' or 'search'"),
        ({"budget": "soon"}, "budget must be a time"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_it_does_not_go_with(settings, said):
    with pytest.raises(ValueError, match=said):
        mc.GPRegressor(kernel="search", **settings).fit(T[:, None], np.abs(np.round(Y)))
