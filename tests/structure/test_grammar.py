"""Sentences of kernels: written and read, grown, and what they say."""

import numpy as np
import pytest

from mercer.estimators.regression.language import Language
from mercer.inputs import Inputs
from mercer.kernels import parse
from mercer.means import Constant
from mercer.params import fixed, flatten
from mercer.structure.grammar import NOISES, Sentence, Vocabulary, expand, words

SERIES = Vocabulary(1, (0,), (0,), (0,), (0,), NOISES)
TABLE = Vocabulary(3, (0, 1))


def grown(vocabulary, steps):
    found = vocabulary.starts()
    for _ in range(steps):
        found = list(dict.fromkeys([*found, *(new for one in found for new in expand(one, vocabulary))]))
    return found


@pytest.mark.parametrize("vocabulary", [SERIES, TABLE])
def test_sentences_are_read_as_they_are_written(vocabulary):
    """Thousands of them; each once, none of its own children."""
    found = grown(vocabulary, 2)
    texts = [str(one) for one in found]
    assert len(set(texts)) == len(found) > 200
    assert [Sentence.read(text) for text in texts] == found
    for one in found[:40]:
        children = expand(one, vocabulary)
        assert one not in children and len(set(children)) == len(children)
        assert all(abs(child.size - one.size) <= 1 + one.size + 2 for child in children)
    with pytest.raises(ValueError, match="not a part such as smooth"):
        Sentence.read("wiggly(0)")


def test_there_are_no_parts_but_those_of_the_vocabulary():
    assert not any(p.kind in ("growth", "periodic", "step") for one in grown(TABLE, 2) for p in one.parts)


def test_no_season_twice():
    """A second one would be near the first and beat with it."""
    children = map(str, expand(Sentence.read("periodic(0)*growth(0) + periodic(0)"), SERIES))
    assert not {"periodic(0) + periodic(0)", "periodic(0)*growth(0) + periodic(0)*growth(0)"} & {*children}
    assert "smooth(0) + smooth(0)" in map(str, expand(Sentence.read("smooth(0)"), SERIES))


def test_structure_is_what_makes_sentences_equal():
    a, b = (
        Sentence.read("linear(0) + periodic(0)*smooth(0)"),
        Sentence.read("smooth(0)*periodic(0)+linear(0)"),
    )
    valued = a.with_values(lambda part: {"period": 12.0}, lambda change: {})
    assert a == b == valued and hash(a) == hash(valued) and a.size == 3
    assert all(part.values == {"period": 12.0} for part in expand(valued, SERIES)[0].parts[:3] if part.values)
    assert Sentence.read("change(0: linear(0) | constant) ~ student-t").size == 3


def test_words():
    text = "change(0: linear(0) | constant) + periodic(0)*growth(0) + smooth(0,1)"
    said = words(Sentence.read(text), ["month", "price"])
    assert said == (
        "[a straight line in month until month, then a constant] + a season of month whose size grows along "
        "month + a smooth function of month and price together"
    )
    both = words(Sentence.read("periodic(0)*rough(0)*growth(0)"), ["month"])
    assert both == "a season of month whose shape changes roughly and whose size grows along month"
    valued = Sentence.read("periodic(0)").with_values(lambda part: {"period": 12.02}, lambda change: {})
    assert words(valued, ["month"]) == "a season of month (period 12.02)"
    assert words(valued, ["month"], units=False) == "a season of month"


RNG = np.random.default_rng(0)
X1 = np.sort(RNG.uniform(0, 10, (24, 1)), 0)
X3 = np.c_[RNG.uniform(0, 10, (24, 2)), RNG.integers(0, 2, 24)]


@pytest.mark.parametrize("X, vocabulary", [(X1, SERIES), (X3, TABLE)], ids=["series", "table"])
def test_every_sentence_is_a_kernel(X, vocabulary):
    """Positive definite, read back from its text, and back to the values that it was made of."""
    y = RNG.normal(size=24)
    language = Language(Inputs(X), y, Constant(fixed(0.0)), None, NOISES)
    some = grown(vocabulary, 1)
    for sentence in some[:: max(1, len(some) // 12)]:
        for variant in language.variants(sentence, {0: [2.0, 3.0]})[:2]:
            model = language.model(variant)
            K = model.gp.kernel(X)
            np.testing.assert_allclose(K, K.T, rtol=1e-12)
            assert np.linalg.eigvalsh(K).min() > -1e-8 * np.trace(K)
            again = parse(language.kernel(variant).formula(17))
            assert again.formula(17) == language.kernel(variant).formula(17)
            learned = language.learned(variant, model)
            assert learned == sentence
            np.testing.assert_allclose(flatten(language.model(learned)).vector, flatten(model).vector)
