"""What every selection must do: distinct rows, the same for a seed; greedy ones by their definition, whatever
the order of the data and their units.
"""

import dataclasses
import functools

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, means, persist, selection, solvers
from mercer.inference import pointwise
from mercer.selection import AbstractSelection, Pool, by_name

from .problem import GP, NOISE, POOL, M, N, X, Y, gain

FINAL = [
    cls
    for cls in (getattr(selection, name) for name in selection.__all__)
    if isinstance(cls, type) and issubclass(cls, AbstractSelection) and cls is not AbstractSelection
]
ALL = [cls() for cls in FINAL]
CHANCE = {"random", "k-means", "biased"}
# with every datum a candidate in every step nothing is left to chance
GREEDY = [
    cls(**({"candidates": None} if "candidates" in {f.name for f in dataclasses.fields(cls)} else {}))
    for cls in FINAL
    if cls.name not in CHANCE
]


def test_there_are_ten():
    assert len(ALL) == 10 and len({s.name for s in ALL}) == 10
    for s in ALL:
        assert by_name(s.name) == s == by_name(s) and hash(s) == hash(type(s)())


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_distinct_rows_by_seed(chosen):
    rows = chosen.rows(POOL, M, seed=1)
    np.testing.assert_array_equal(rows, chosen.rows(Pool(GP, X, Y, NOISE), M, seed=1))
    assert rows.shape == (M,) and len(set(rows)) == M and rows.min() >= 0 and rows.max() < N
    np.testing.assert_array_equal(np.sort(chosen.rows(POOL, N)), np.arange(N))


@pytest.mark.parametrize("name", sorted(CHANCE))
def test_chance_depends_on_the_seed(name):
    draws = {tuple(by_name(name).rows(POOL, M, seed=s)) for s in range(5)}
    assert len(draws) > 1


@pytest.mark.parametrize("chosen", GREEDY, ids=str)
def test_every_step_takes_the_best_by_definition(chosen):
    rows = list(chosen.rows(POOL, M))
    for step in range(M):
        rest = [i for i in range(N) if i not in rows[:step]]
        gains = np.array([gain(chosen.name, rows[:step], i) for i in rest])
        assert gains[rest.index(rows[step])] == pytest.approx(gains.max(), rel=1e-9)


@pytest.mark.parametrize("chosen", GREEDY, ids=str)
def test_fewer_are_the_first_of_more(chosen):
    np.testing.assert_array_equal(chosen.rows(POOL, M), chosen.rows(POOL, 2 * M, seed=7)[:M])


@pytest.mark.parametrize("chosen", GREEDY, ids=str)
def test_the_order_of_the_data_does_not_matter(chosen):
    """With a prior whose variance differs from input to input: with equal ones the first step is a tie."""
    gp, order = mc.GP(k.Matern([1.0, 2.0], 1.3, nu=1.5) + k.Linear([0.5, 0.7])), np.arange(N)[::-1]
    shuffled = Pool(gp, X[order], Y[order], NOISE)
    np.testing.assert_array_equal(order[chosen.rows(shuffled, M)], chosen.rows(Pool(gp, X, Y, NOISE), M))


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_units_do_not_matter(chosen):
    """y in other units: prior standard deviation, mean and noise with it. And inputs, with their
    length-scales.
    """
    gp = mc.GP(k.Matern([10.0, 4.0], 4 * 1.3, nu=1.5), means.Constant(0.8))
    other = Pool(gp, X * [10.0, 2.0], 2 * Y, 4 * NOISE)
    np.testing.assert_array_equal(chosen.rows(other, M, seed=3), chosen.rows(POOL, M, seed=3))


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_saved_with_its_solver(chosen):
    for solver in (solvers.VFE(m=5, select=chosen), solvers.SubsetOfData(5, chosen)):
        assert persist.from_json(persist.to_json(solver)) == solver


@pytest.mark.parametrize("chosen", GREEDY, ids=str)
def test_a_name_or_an_object_in_a_solver(chosen):
    for cls in (solvers.VFE, solvers.SubsetOfData):
        by_object = GP.condition(X, Y, NOISE, solver=cls(M, type(chosen)()))
        assert by_object.log_evidence == GP.condition(X, Y, NOISE, solver=cls(M, chosen.name)).log_evidence


def test_several_latent_functions_are_chosen_by_the_first():
    other = mc.GP(k.SE(0.1))
    np.testing.assert_array_equal(
        selection.Pivoted().rows(Pool((GP, other, other), X), M), selection.Pivoted().rows(POOL, M)
    )


def test_near_misses_are_answered():
    for wrong, right in [("kmeans", "k-means"), ("information", "information-gain"), ("pivot", "pivoted")]:
        with pytest.raises(ValueError, match=f"unknown selection '{wrong}': did you mean '{right}'"):
            by_name(wrong)
    with pytest.raises(ValueError, match="unknown selection 'best'; there are"):
        by_name("best")
    with pytest.raises(ValueError, match="did you mean 'k-means'"):
        solvers.VFE(select="kmeans")


def test_errors():
    bare = Pool(GP, X)
    for chosen, pool, m, match in [
        (selection.Random(), bare, 0, "between 1 and 30"),
        (selection.Pivoted(), bare, N + 1, "cannot select 31 of 30"),
        (selection.Evidence(), Pool(GP, X, None, 0.1), M, "looks at the targets"),
        (selection.Residual(), bare, M, r"Residual\(candidates=59\) looks at the targets"),
        (selection.Entropy(), bare, M, "looks at the targets"),
        (selection.Entropy(), Pool(GP, X, Y), M, "give noise_variance or tilted"),
        (selection.Matching(), Pool(GP, X, Y), M, "give noise_variance"),
        (selection.Matching(), Pool(GP, X, Y, np.ones(3)), M, "one for each of the 30"),
        (selection.Entropy(), Pool(GP, X, Y, -1.0), M, ">= 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            chosen.rows(pool, m)
    with pytest.raises(ValueError, match="candidates must be 1"):
        selection.Trace(candidates=0)
    softmax = mc.Model(GP, likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="with several latent functions use 'k-means'"):
        softmax.condition(X, np.arange(N) % 3, solver=solvers.SubsetOfData(5, "entropy"))


def test_a_known_noise_comes_before_the_hook():
    """Gaussian noise in closed form is what its likelihood says."""
    for name in ("entropy", "information-gain"):
        hook = functools.partial(pointwise.tilted, likelihoods.Gaussian(NOISE), Y)
        np.testing.assert_array_equal(
            by_name(name).rows(Pool(GP, X, Y, tilted=hook), M), by_name(name).rows(POOL, M)
        )

    def never(mean, variance):
        raise AssertionError

    np.testing.assert_array_equal(
        selection.Entropy().rows(Pool(GP, X, Y, NOISE, never), M), selection.Entropy().rows(POOL, M)
    )
