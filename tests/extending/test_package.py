"""Classes from another package: through the conformance suites, a fit, the estimators, and files, whether
they are handed in or registered by an entry point.
"""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, registry, solvers
from mercer.persist import ModelFileError

from ..kernels import test_conformance as kernel_suite
from ..likelihoods import test_conformance as likelihood_suite
from ..likelihoods.conformance import Case
from .eigen_solver import EigenSolver
from .their_package import Cauchy, Logistic, Ramp

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (20, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * np.maximum(0.0, X[:, 0]) + 0.1 * RNG.logistic(size=20)
XS = RNG.uniform(-2, 2, (5, 2))


@pytest.mark.parametrize(
    "kernel", [Cauchy(0.7, 1.3), Cauchy([0.7, 2.0]) + k.Linear()], ids=["own", "in a sum"]
)
@pytest.mark.parametrize(
    "what", ["covariance", "block_of_points", "gradient_of_hyperparameters", "gradient_of_inputs", "features"]
)
def test_the_kernel_conforms(what, kernel):
    getattr(kernel_suite, f"test_{what}")(kernel, 2)


@pytest.mark.representative("derivatives", "tilted", "hyperparameters", "targets")
@pytest.mark.parametrize(
    "what",
    [
        "probabilities_sum_to_one",
        "derivatives_match_finite_differences",
        "concave_where_it_says_so",
        "log_partition_and_tilted_moments",
        "no_variance_is_the_likelihood_itself",
        "expectation",
        "gradients_of_hyperparameters",
        "jit_and_vmap",
        "quantiles",
        "targets_and_guesses",
    ],
)
def test_the_likelihood_conforms(what):
    getattr(likelihood_suite, f"test_{what}")(Case(Logistic(0.4), (-1.2, 2.0)))


def test_the_likelihood_draws_what_it_predicts(rng):
    case = Case(Logistic(0.4), (-1.2, 2.0))
    likelihood_suite.test_draws_agree_with_the_predictive_moments(case, rng)


@pytest.mark.slow
def test_everything_takes_them():
    model = mc.Model(mc.GP(Cauchy(1.0), Ramp(0.1)), Logistic(0.2))
    found = mc.fit(model, X, Y)
    assert found.posterior.log_evidence > model.condition(X, Y).log_evidence
    assert type(mc.inference.by_name(None, Logistic())) is mc.inference.Laplace  # smooth noise: the default
    for rule in ("ep", "variational"):
        assert np.isfinite(model.condition(X, Y, rule).log_evidence)


def fitted() -> mc.GPRegressor:
    settings = dict(mean=Ramp(0.1), likelihood=Logistic(0.1), solver=EigenSolver())
    return mc.GPRegressor(Cauchy(1.0), **settings).fit(X, Y)


def test_files_hold_them_by_name_and_classes_are_handed_in(tmp_path):
    model, path = fitted(), tmp_path / "m.mercer"
    assert "noise: logistic with scale" in model.summary()
    model.save(path)
    names = ["tests:Cauchy", "tests:EigenSolver", "tests:Logistic", "tests:Ramp"]
    told_to = "import them and pass classes=[Cauchy, EigenSolver, Logistic, Ramp]"
    with pytest.raises(ModelFileError) as told:
        mc.load(path)
    assert f"{names} are not part of mercer: {told_to}" in str(told.value)
    assert "entry points of 'mercer.classes'" in str(told.value)
    with pytest.raises(ModelFileError, match=r"\['tests:Ramp'\] are not part of mercer"):
        mc.load(path, classes=[Cauchy, Logistic, EigenSolver])
    again = mc.load(path, classes=[Cauchy, Ramp, Logistic, EigenSolver])
    np.testing.assert_allclose(again.predict(XS), model.predict(XS), rtol=1e-12)
    assert isinstance(again.posterior_.solver, EigenSolver)
    assert again.summary() == model.summary()


# ------------------------------------------------------------------------------------------------- installed


POINTS = """[mercer.classes]
their_package:Cauchy = their_package:Cauchy
their_package:Ramp = their_package:Ramp
their_package:Logistic = their_package:Logistic
eigen_solver:EigenSolver = eigen_solver:EigenSolver
Cauchy = their_package:Cauchy
ramp = their_package:Ramp
logistic = their_package:Logistic
eigen = eigen_solver:EigenSolver
"""


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder in which the package is installed, on the path."""
    folder, here = tmp_path / "site", Path(__file__).parent
    (folder / "their_package-1.0.dist-info").mkdir(parents=True)
    for module in ("their_package.py", "eigen_solver.py"):
        shutil.copy(here / module, folder / module)
    about = "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n"
    (folder / "their_package-1.0.dist-info" / "METADATA").write_text(about)
    (folder / "their_package-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield folder
    for module in ("their_package", "eigen_solver"):
        sys.modules.pop(module, None)


def test_installed_classes_go_by_name(site):
    cauchy = k.parse("2 * Cauchy(l=0.5) + SE()")
    assert type(cauchy.terms[0]).__module__ == "their_package"
    assert type(likelihoods.by_name("logistic", scale=0.3)).__name__ == "Logistic"
    assert type(mc.GP(k.SE(), "ramp").mean).__name__ == "Ramp"
    assert type(solvers.by_name("eigen")).__name__ == "EigenSolver"
    assert type(solvers.by_name("eigen")) in registry.all_installed(solvers.AbstractSolver)
    with pytest.raises(solvers.SolverError, match="did you mean 'eigen'"):
        solvers.by_name("eigne")
    with pytest.raises(ValueError, match="unknown likelihood 'eigen'"):  # there, but not a likelihood
        likelihoods.by_name("eigen")
    robust = mc.GPRegressor("Cauchy(l=1)", mean="ramp", likelihood="logistic", solver="eigen").fit(X, Y)
    assert dict(robust.model_.likelihood.info)["scale"].prior is not None  # its own weak prior


@pytest.mark.slow
def test_files_find_installed_classes(site, tmp_path):
    theirs = importlib.import_module("their_package")
    eigen = importlib.import_module("eigen_solver").EigenSolver()
    settings = dict(mean=theirs.Ramp(0.1), likelihood=theirs.Logistic(0.1), solver=eigen)
    model = mc.GPRegressor(theirs.Cauchy(1.0), **settings).fit(X, Y)
    model.save(tmp_path / "theirs")
    mc.GPRegressor(k.SE(1.0), noise_variance=mc.fixed(0.1)).fit(X, Y).save(tmp_path / "plain")
    again = mc.load(tmp_path / "theirs")
    assert type(again.kernel_) is theirs.Cauchy
    np.testing.assert_allclose(again.predict(XS), model.predict(XS), rtol=1e-12)
    for name, there in (("plain", False), ("theirs", True)):
        program = (
            f"import sys; sys.path.insert(0, {str(site)!r}); import mercer\n"
            f"mercer.load({str(tmp_path / name)!r}); print('their_package' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(there)


def test_a_file_cannot_name_a_module_that_is_not_registered(site, tmp_path):
    theirs = importlib.import_module("their_package")
    mc.GPRegressor(theirs.Cauchy(1.0), noise_variance=mc.fixed(0.1)).fit(X, Y).save(tmp_path / "m")
    points = site / "their_package-1.0.dist-info" / "entry_points.txt"
    points.write_text("[mercer.classes]\nother = wsgiref.handlers:BaseHandler\n")
    sys.modules.pop("their_package")
    importlib.invalidate_caches()
    with pytest.raises(ModelFileError, match="are not part of mercer"):
        mc.load(tmp_path / "m")
    assert "their_package" not in sys.modules and "wsgiref.handlers" not in sys.modules
