"""The driver: what it checks, keeps and reports, with small models whose steps are known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mercer.em import EMError, GaussianMixture, Gaussians, em


@dataclass(frozen=True)
class Sum:
    log_likelihood: float

    def __add__(self, other):
        return Sum(self.log_likelihood + other.log_likelihood)


@dataclass(frozen=True)
class Steps:
    """A model whose log-likelihood of any data is the next of a list."""

    values: tuple
    at: int = 0

    def expect(self, data):
        if self.values[self.at] is KeyboardInterrupt:
            raise KeyboardInterrupt
        return Sum(float(self.values[self.at]))

    def maximise(self, summary):
        return replace(self, at=self.at + 1)


def mixture_and_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(60, 2)) + 3])
    return GaussianMixture([0.5, 0.5], Gaussians([[0.0, 0], [1, 1]], [np.eye(2)] * 2)), X


def test_a_falling_likelihood_is_an_error_and_a_rounding_one_is_not():
    with pytest.raises(EMError, match=r"fell from -5 to -6 at start 1, iteration 2"):
        em(Steps((-7.0, -5.0, -6.0)), [None], max_evaluations=5)
    found = em(Steps((-7.0, -5.0, -5.0 - 1e-9)), [None], max_evaluations=2, tol=0)
    assert found.iterations == 2


@pytest.mark.parametrize(
    "value, words", [(np.nan, "is nan"), (np.inf, "is inf"), (-np.inf, "probability zero")]
)
def test_a_likelihood_that_is_no_number_is_an_error_never_convergence(value, words):
    with pytest.raises(EMError, match=words):
        em(Steps((-7.0, value)), [None])


def test_the_best_start_is_kept_and_a_failing_one_does_no_harm():
    starts = [Steps((-9.0, -8.0)), Steps((-9.0, np.nan)), Steps((-4.0, -3.0)), lambda: Steps((-7.0, -6.0))]
    found = em(starts, [None], max_evaluations=1, tol=0)
    assert (found.start, found.objective, found.reason) == (2, -3.0, "max_evaluations=1 reached")
    assert [step.objective for step in found.history] == [-9, -8, -9, -4, -3, -7, -6]
    np.testing.assert_array_equal(found.path(), [-4, -3])
    np.testing.assert_array_equal(found.path(0), [-9, -8])
    assert not found.converged


def test_ctrl_c_keeps_the_best_and_begins_no_other_start():
    found = em([Steps((-7.0, -5.0, KeyboardInterrupt)), Steps((0.0, 1.0))], [None], max_evaluations=9, tol=0)
    assert (found.objective, found.reason, found.converged) == (-5.0, "interrupted", False)
    found = em([Steps((-7.0, -5.0)), Steps((KeyboardInterrupt,))], [None], max_evaluations=1, tol=0)
    assert found.objective == -5.0
    with pytest.raises(KeyboardInterrupt):
        em(Steps((KeyboardInterrupt,)), [None])


def test_the_tolerance_is_relative_to_the_objective():
    found = em(Steps((-2000.0, -1000.0, -999.5, -999.4)), [None], tol=1e-3)
    assert found.converged and found.iterations == 2


def test_a_prior_is_part_of_the_objective():
    @dataclass(frozen=True)
    class Penalised(Steps):
        def log_prior(self):
            return -10.0 * self.at

    with pytest.raises(EMError, match="fell"):
        em(Penalised((-7.0, -5.0)), [None])


def test_parts_of_the_data_add_up_to_the_whole_wherever_they_are_computed():
    model, X = mixture_and_data()
    whole = em(model, [X], max_evaluations=5, tol=0)
    parts = em(model, [X[:17], X[17:20], X[20:]], max_evaluations=5, tol=0)
    np.testing.assert_allclose(parts.model.covariances, whole.model.covariances, rtol=1e-12)
    assert parts.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-13)
    with ThreadPoolExecutor(2) as pool:
        elsewhere = em(model, [X[:50], X[50:]], max_evaluations=5, tol=0, map=pool.map)
    np.testing.assert_allclose(elsewhere.model.means, whole.model.means, rtol=1e-12)


def test_a_partial_m_step_climbs_too():
    @dataclass(frozen=True)
    class MeansOnly:
        """Generalised EM: covariances stay."""

        inner: GaussianMixture

        def expect(self, X):
            return self.inner.expect(X)

        def maximise(self, summary):
            full = self.inner.maximise(summary)
            kept = replace(full.gaussians, covariances=self.inner.covariances)
            return MeansOnly(replace(full, gaussians=kept))

    model, X = mixture_and_data()
    path = em(MeansOnly(model), [X], max_evaluations=20, tol=0).path()
    assert (np.diff(path) >= -1e-10).all() and path[-1] > path[0] + 1


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="at least one start"):
        em([], [None])
    with pytest.raises(ValueError, match="max_evaluations"):
        em(Steps((0.0,)), [None], max_evaluations=-1)


def test_progress_is_shown_when_asked_and_only_then(capsys):
    em(Steps((-7.0, -5.0)), [None], max_evaluations=1, progress=False)
    assert capsys.readouterr().err == ""
    em(Steps((-7.0, -5.0)), [None], max_evaluations=1, progress=True)
    assert capsys.readouterr().err.startswith("EM: start 1 of 1, iteration 0: -7.0000; Ctrl-C keeps the best")
