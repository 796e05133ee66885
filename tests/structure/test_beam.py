"""The search among sentences: what it learns again, and from where."""

import numpy as np
import pytest

from mercer.estimators.regression.language import Language
from mercer.inputs import Inputs
from mercer.means import Constant
from mercer.params import fixed
from mercer.structure.beam import CLIMB, Candidate, Search, _Data
from mercer.structure.grammar import Sentence
from mercer.structure.parts import Problem, Rows

RNG = np.random.default_rng(0)
T = np.arange(60.0)
SEASON = np.sin(2 * np.pi * T / 12) + 0.5 * np.cos(4 * np.pi * T / 12)


def language(t, y):
    return Language(Inputs(t[:, None]), y, Constant(fixed(float(y.mean()))))


def at(sentence, values):
    """The sentence with these values of its kinds of parts."""
    return sentence.with_values(lambda part: values.get(part.kind, {}), lambda change: {})


def climbed(y, candidate):
    """The candidate after it was climbed from."""
    speaker = language(T, y)
    data, candidates = _Data(speaker, np.arange(60), Rows(T[:, None]), y, None), [candidate]
    Search(speaker, T[:, None], y)._climb(data, candidates, CLIMB, 1)
    return data, candidates[0]


def test_a_season_is_held_against_multiples_of_its_period():
    """Twelve equal steps fall on as many places of a period of 12/5 as of one of 12."""
    y = SEASON + 0.2 * RNG.normal(size=60)
    speaker = language(T, y)
    start = at(Sentence.read("periodic(0)"), {"periodic": {"period": 2.4, "lengthscale": 0.2}})
    data = _Data(speaker, np.arange(60), Rows(T[:, None]), y, None)
    data.usual = {0: [2.4]}  # nobody thinks of another one
    stuck = data.learn([start], CLIMB)
    assert stuck.sentence.parts[0].values["period"] == pytest.approx(2.4, rel=0.01)
    search = Search(speaker, T[:, None], y)
    related = [c for c in search._elsewhere(data, stuck, CLIMB) if c is not None]
    best = max(related, key=lambda c: c.value)
    assert best.sentence.parts[0].values["period"] == pytest.approx(12.0, rel=0.01)
    assert best.value > stuck.value + 5.0
    ratios = {round(one.parts[0].values["period"] / 2.4, 6) for one in speaker.relatives(start)}
    assert ratios == {2, 3, 4, 5, 6, 7}  # a half is shorter than two steps


def test_what_a_part_explained_before_does_not_keep_it_there():
    """A function that stood for the trend, long and large, when a line comes to explain it."""
    y = 0.5 * T + np.cumsum(0.3 * RNG.normal(size=60)) + SEASON + 0.1 * RNG.normal(size=60)
    values = {"rough": {"lengthscale 0": 300.0}, "periodic": {"period": 12.0, "lengthscale": 1.0}}
    start = at(Sentence.read("linear(0) + periodic(0) + rough(0)"), values)
    data, after = climbed(y, Candidate(start, -1e6, -1e6, 7, 60))
    fresh = data.learn(data.language.variants(start.bare(), data.usual), CLIMB)
    assert data.learn([start], CLIMB).value < fresh.value - 1.0 and after.value >= fresh.value


@pytest.mark.parametrize(
    "text", ["periodic(0)*growth(0)", "change(0: linear(0) | smooth(0))", "smooth(0) + step(0)"]
)
def test_years_are_as_good_as_months(text):
    """Places far from zero in the units of the data: nothing depends on where zero is."""
    y = SEASON + 0.2 * RNG.normal(size=60)
    found = []
    for t in (T, T + 2000.0):
        speaker = language(t, y)
        start = speaker.variants(Sentence.read(text), {0: [12.0]})[0]
        problem = Problem(speaker.model(start), Rows(t[:, None]), y)
        value, gradient, _ = problem.value_and_gradient(problem.flat.vector)
        found.append([value, *gradient])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-6)
    assert np.isfinite(found[0]).all()
