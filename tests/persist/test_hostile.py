"""Whatever a file says, loading it ends as a model or as one kind of error, soon and in little memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import registry, solvers
from mercer.linalg import tiles

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (24, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(24)
LABELS = np.digitize(Y, [-0.5, 0.5])

MODELS = {
    "a regression": lambda: mc.GPRegressor().fit(X, Y),
    "basis": lambda: mc.GPRegressor(k.SE(1.0), basis=mc.means.Polynomial(1)).fit(X, Y),
    "classes": lambda: mc.GPClassifier(k.SE(1.0), max_evaluations=3).fit(X, LABELS),
    "series": lambda: mc.GPTimeSeries(None, max_evaluations=3).fit(Y),
    "hmm": lambda: mc.HMM(2).fit(X),
}
MORE = {
    "contests": lambda: mc.GPClassifier(k.SE(1.0), multi_class="one-vs-rest", max_evaluations=3).fit(
        X, LABELS
    ),
    "averaged": lambda: mc.GPRegressor(k.SE(1.0), inference="ccd").fit(X, Y),
    "draws": lambda: mc.GPRegressor(k.SE(1.0), inference=mc.inference.MCMC(draws=20, tune=20, chains=2)).fit(
        X, Y
    ),
    "inducing": lambda: mc.GPRegressor(k.SE(1.0), solver=solvers.VFE(m=6)).fit(X, Y),
    "sum": lambda: mc.GPRegressor("2 * SE(l=1) * Linear() + Matern(nu=1.5)", max_evaluations=3).fit(X, Y),
    "robust": lambda: mc.GPRegressor(k.SE(1.0), likelihood="student-t", max_evaluations=3).fit(X, Y),
    "mixture": lambda: mc.GaussianMixture(2).fit(X),
    "variational": lambda: mc.BayesianGaussianMixture(3, "diagonal", max_evaluations=5, tol=0).fit(X),
    "variational hmm": lambda: mc.BayesianHMM(2, max_evaluations=5, tol=0).fit(X),
    "counts": lambda: mc.HMM(2, "poisson", max_evaluations=5, tol=0).fit(np.round(10 * np.abs(X))),
    "outputs": lambda: mc.GPRegressor(k.SE(1.0), max_evaluations=3).fit(X, np.c_[Y, Y**2]),
    "coregional": lambda: mc.GPRegressor(k.SE(1.0), outputs="coregional", max_evaluations=3).fit(
        X, np.c_[Y, Y**2]
    ),
    "density": lambda: mc.GPDensity().fit(X),
    "intensity": lambda: mc.GPIntensity().fit(X),
    "experts": lambda: mc.GPMixture(2, kernel=k.SE(1.0), max_evaluations=2, tol=0).fit(X, Y),
}


def saved(folder, models):
    with np.errstate(all="ignore"):
        for name, make in models.items():
            make().save(folder / f"{name}.mercer")
    return folder


def run(folder, seed, number, *more):
    """How many mutants ended how; an error that shows those that ended in another way."""
    command = [sys.executable, "-m", "tests.persist.hostile", str(folder), str(seed), str(number), *more]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 5 * number, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    *bad, last = done.stdout.splitlines()
    assert not bad, "\n".join(bad)
    return json.loads(last)


def assert_nothing_is_computed(folder, monkeypatch):
    """Loading neither factors nor compiles: what a file says costs nothing until it is used."""

    def forbidden(*_, **__):
        raise AssertionError("loading computes")

    with monkeypatch.context() as m:
        for cls in registry.classes("solvers", solvers.AbstractSolver):
            m.setattr(cls, "factor", forbidden)
        m.setattr(tiles, "compiled", forbidden)
        m.setattr(mc.Model, "condition", forbidden)
        for path in folder.glob("*.mercer"):
            mc.load(path)


@pytest.mark.filterwarnings("ignore")
def test_hostile_files(tmp_path, monkeypatch):
    """Every class where it belongs, as large as files may say; and a few hundred mutants."""
    assert_nothing_is_computed(saved(tmp_path, MODELS), monkeypatch)
    ends = run(tmp_path, 0, 300)
    assert ends["error"] > 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_hostile_files(tmp_path, monkeypatch):
    assert_nothing_is_computed(saved(tmp_path, MODELS | MORE), monkeypatch)
    loaded = run(tmp_path, 1, 2000)
    predicted = run(tmp_path, 5, 300, "predict")  # those that load predict, or say why not
    assert loaded["error"] + predicted["error"] > 1300
