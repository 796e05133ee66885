"""The default solver is dense for few data, and chosen for many: by a rule in rows and bytes."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.estimators import many
from mercer.solvers import Auto

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (600, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=600)


def solver_for(n, given=None, memory=None, latents=1):
    return many.solver_for(given, memory, (n, 6), latents, None)


def test_the_rule():
    assert solver_for(10_000) is None
    chosen = solver_for(10_001)
    assert isinstance(chosen, Auto) and chosen.say and "more than 10,000 rows" in chosen.because
    assert "needs 763 MiB" in solver_for(10_000, memory="500MiB").because
    assert "needs" in solver_for(10_000, latents=10).because  # ten matrices
    assert solver_for(10**6, given="dense") == "dense"
    assert solver_for(10**6, given="auto", memory="1GiB") == Auto(memory="1GiB")
    assert not many.solver_for(None, None, (20_000, 2), 1, False).say


def test_the_rule_asks_nothing_of_the_machine(monkeypatch):
    monkeypatch.setattr("mercer.linalg.memory.available", lambda: 1.0)
    assert solver_for(10_000) is None


@pytest.mark.slow
def test_many_rows_are_not_dense_by_default(monkeypatch, capsys):
    monkeypatch.setattr(many, "ROWS", 550)
    monkeypatch.setattr("mercer.solvers.auto.QUICK", 0.01)
    model = mc.GPRegressor(k.SE(1.0)).fit(X, Y)
    said = " ".join(capsys.readouterr().err.split())
    assert "as for more than 550 rows (solver='dense' is exact)" in said
    assert any("550 rows" in note for note in model.posterior_.notes) and "550 rows" in model.summary()
    assert mc.GPRegressor(k.SE(1.0), solver="dense").fit(X, Y).posterior_.notes == ()
    labels = np.where(Y > 0, "high", "low")
    found = mc.GPClassifier(k.SE(1.0), max_evaluations=0).fit(X, labels)
    assert any("550 rows" in note for note in found.posterior_.notes)


def test_what_learns_in_another_way_keeps_its_own_solver(monkeypatch):
    monkeypatch.setattr(many, "ROWS", 50)
    rule = mc.inference.SVGP(m=10, batch=50, epochs=1)
    assert mc.GPRegressor(k.SE(1.0), inference=rule).fit(X, Y).fit_.status.converged


@pytest.mark.parametrize("n", [900])
def test_known_noise_of_many_rows(n):
    """The coarse part of the fit has the noise of its own rows."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 5, (n, 1))
    noise = np.where(t[:, 0] > 2, 0.01, 0.2)
    y = np.sin(t[:, 0]) + np.sqrt(noise) * rng.normal(size=n)
    model = mc.GPRegressor(k.SE(1.0), noise_variance=noise).fit(t, y)
    assert {e.size for e in model.fit_.history} == {400, n}
    mean = model.predict(t, noise_variance=noise)
    assert np.sqrt(np.mean((mean - np.sin(t[:, 0])) ** 2)) < 0.05


def test_a_file_for_each_of_several_fits(tmp_path):
    path = tmp_path / "fit.npz"
    labels = np.array(["a", "b", "c"])[np.digitize(Y[:90], [-0.5, 0.5])]
    mc.GPClassifier(k.SE(1.0, mc.fixed(3.0)), multi_class="one-vs-rest", checkpoint=path).fit(X[:90], labels)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit-1.npz", "fit-2.npz", "fit.npz"]
    mc.GPRegressor(k.SE(1.0), checkpoint=tmp_path / "one.npz").fit(X[:60], Y[:60])
    again = mc.GPRegressor(k.SE(1.0), checkpoint=str(tmp_path / "one.npz")).fit(X[:60], Y[:60])
    assert np.isfinite(again.fit_.value)
