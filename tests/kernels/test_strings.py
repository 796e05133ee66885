"""Kernels on strings, trees and other objects against enumeration; GP regression on strings. A.T1-T8,
D.KS1-KS7.
"""

import collections
import itertools
import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.kernels.text.base import width
from mercer.kernels.text.pairs import forward
from mercer.kernels.text.strings import neighbours
from mercer.kernels.text.suffix import SuffixAutomaton, matches_by_length
from mercer.linalg import tiles
from mercer.params import ParameterError, parameters, replace_leaves, strip
from mercer.persist import from_json, to_json

words = st.lists(st.text("abc", max_size=7), min_size=2, max_size=5)
decays = st.sampled_from([0.2, 0.5, 0.9, 1.0])


def column(objects):
    """Objects as a table with one column."""
    out = np.empty((len(objects), 1), dtype=object)
    for i, x in enumerate(objects):
        out[i, 0] = x
    return out


# ------------------------------------------------------------------------------------------------- by
# enumeration


def substrings(x):
    return collections.Counter(x[i:j] for i in range(len(x)) for j in range(i + 1, len(x) + 1))


def subsequences(x, length, decay):
    """Weight of every subsequence: decay^extent, summed over where it occurs."""
    out = collections.Counter()
    for places in itertools.combinations(range(len(x)), length):
        out["".join(x[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return out


def near_words(x, length, m, alphabet):
    windows = [x[i : i + length] for i in range(len(x) - length + 1)]
    near = lambda w, u: sum(a != b for a, b in zip(w, u, strict=True)) <= m  # noqa: E731
    return {"".join(w): sum(near(w, u) for u in windows) for w in itertools.product(alphabet, repeat=length)}


def dot(p, q, weight=lambda s: 1.0):
    return sum(weight(s) * p[s] * q[s] for s in p if s in q)


def gram(X, features, weight=lambda s: 1.0):
    found = [features(x) for x in X]
    return np.array([[dot(p, q, weight) for q in found] for p in found])


@given(X=words, decay=decays)
def test_substring(X, decay):
    """A.T1, D.KS1: (4.45) with weights decay^|s|, by the table and by the automaton (A.T5)."""
    expected = gram(X, substrings, lambda s: decay ** len(s))
    np.testing.assert_allclose(k.Substring(decay)(X), expected, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(k.Substring(decay, automaton=True)(X), expected, rtol=1e-12, atol=1e-300)


@given(X=words, length=st.integers(1, 4))
def test_spectrum(X, length):
    """A.T2, A.T4, D.KS2, D.KS4: counts of k-symbol substrings,
    by fingerprints and by places in an alphabet.
    """
    expected = gram(X, lambda x: collections.Counter(x[i : i + length] for i in range(len(x) - length + 1)))
    np.testing.assert_array_equal(k.Spectrum(length)(X), expected)
    np.testing.assert_array_equal(k.Spectrum(length, alphabet="cab")(X), expected)
    if length == 1:
        np.testing.assert_array_equal(k.BagOfCharacters()(X), expected)
        np.testing.assert_array_equal(k.BagOfCharacters(alphabet="bca")(X), expected)


@given(X=words, length=st.integers(1, 4), decay=decays)
def test_gap_weighted(X, length, decay):
    """A.T7, D.KS6: subsequences with gaps, each with decay^(extent in x + extent in x')."""
    expected = gram(X, lambda x: subsequences(x, length, decay))
    np.testing.assert_allclose(k.GapWeighted(length, decay)(X), expected, rtol=1e-13, atol=1e-300)


@given(X=words, length=st.integers(1, 3), m=st.integers(0, 3))
def test_mismatch(X, length, m):
    """A.T6, D.KS5: words within m differences of the k-symbol substrings,
    over an alphabet with a symbol that never occurs.
    """
    m = min(m, length)
    expected = gram(X, lambda x: near_words(x, length, m, "abcd"))
    np.testing.assert_allclose(k.Mismatch(length, m, alphabet="abcd")(X), expected, rtol=1e-13)
    if m == 0:
        np.testing.assert_array_equal(k.Mismatch(length, 0, alphabet="abcd")(X), k.Spectrum(length)(X))


def test_neighbours_are_counted():
    """How many words lie within m differences of two words depends on their distance only."""
    alphabet, length = "abc", 4
    every = list(itertools.product(alphabet, repeat=length))
    far = lambda u, v: sum(a != b for a, b in zip(u, v, strict=True))  # noqa: E731
    first = ("a",) * length
    for m, distance in itertools.product(range(length + 1), range(length + 1)):
        second = ("b",) * distance + ("a",) * (length - distance)
        count = sum(far(w, first) <= m and far(w, second) <= m for w in every)
        assert neighbours(length, m, len(alphabet), distance) == count
    assert neighbours(3, 3, 1, 0) == 1


def test_golden_values():
    """T-K: banana and ananas, cat and car."""
    X = ["banana", "ananas"]
    for kernel, both, own in [
        (k.BagOfCharacters(), 13.0, 14.0),
        (k.Spectrum(2), 8.0, 9.0),
        (k.Spectrum(3), 5.0, 6.0),
        (k.Substring(0.5), 9.28125, 10.265625),
        (k.Substring(0.5, automaton=True), 9.28125, 10.265625),
    ]:
        np.testing.assert_array_equal(kernel(X), [[own, both], [both, own]])
    decay = 0.7
    expected = [[2 * decay**4 + decay**6, decay**4], [decay**4, 2 * decay**4 + decay**6]]
    np.testing.assert_allclose(k.GapWeighted(2, decay)(["cat", "car"]), expected, rtol=1e-15)


def test_bag_of_words():
    """A.T3, D.KS3: counts of words; a vocabulary; TF-IDF weights from a collection of texts."""
    X = ["the cat sat on the mat", "the dog sat", "a  dog\tand a cat", ""]
    expected = gram(X, lambda x: collections.Counter(x.split()))
    np.testing.assert_array_equal(k.BagOfWords()(X), expected)
    np.testing.assert_array_equal(k.BagOfWords.of(X)(X), expected)
    few = k.BagOfWords(["dog", "cat"])
    np.testing.assert_array_equal(
        few(X), gram(X, lambda x: collections.Counter(w for w in x.split() if w in ("cat", "dog")))
    )
    scored = k.BagOfWords.of(X, tf_idf=True)
    texts = [set(x.split()) for x in X]
    idf = {w: math.log(4 / sum(w in t for t in texts)) for t in texts for w in t}
    np.testing.assert_allclose(
        scored(X), gram(X, lambda x: collections.Counter(x.split()), lambda w: idf[w] ** 2), rtol=1e-14
    )
    assert scored(["unseen words only"])[0, 0] == 0.0
    assert k.parse(scored.formula(17)).formula(17) == scored.formula(17)


def test_normalise():
    """normalise=True equals the algebra's normalisation, keeps its own variance,
    and gives zero where nothing can be compared.
    """
    X = ["gattaca", "tacat", "", "ccc"]
    for kernel in (k.Substring(0.6), k.GapWeighted(2, 0.6), k.Spectrum(2), k.Mismatch(2, 1, alphabet="acgt")):
        options = {
            f: getattr(kernel, f) for f in ("decay", "length", "k", "m", "alphabet") if hasattr(kernel, f)
        }
        normalised = type(kernel)(**options, normalise=True, variance=2.5)
        K = normalised(X)
        np.testing.assert_allclose(K, 2.5 * kernel.normalised()(X), rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(np.diag(K), [2.5, 2.5, 0.0, 2.5], rtol=1e-14)


@given(text=st.text("ab", max_size=12), other=st.text("ab", max_size=12))
def test_suffix_automaton(text, other):
    """At most 2n states; its counts are the numbers of occurrences; any weights by length."""
    automaton = SuffixAutomaton([ord(c) for c in text])
    assert len(automaton.link) <= max(2 * len(text), 1)
    for s, count in substrings(text).items():
        state = 0
        for symbol in s:
            state = automaton.moves[state][ord(symbol)]
        assert automaton.count[state] == count
    weights = np.array([3.0, 0.0, 1.0, 0.25, 2.0] + [0.5] * 20)
    tables = [np.array([[ord(c) for c in x] + [-1] * 3]) for x in (text, other)]
    expected = dot(substrings(text), substrings(other), lambda s: weights[len(s) - 1])
    np.testing.assert_allclose(matches_by_length(weights, *tables), [[expected]], rtol=1e-12)


def test_automaton_time_is_linear(rng):
    """A.T5: eight times the length takes about eight times the time (the table would take 64 times)."""

    def seconds(n):
        A, B = (rng.integers(0, 4, (1, n)) for _ in range(2))
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            matches_by_length(0.5 ** np.arange(1, n + 1), A, B)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(16_000) < 24 * seconds(2_000)


# ------------------------------------------------------------------------------------------------- trees

TREES = [
    ("S", ("NP", ("D", "the"), ("N", "dog")), ("VP", ("V", "saw"), ("NP", ("D", "the"), ("N", "cat")))),
    ("S", ("NP", ("D", "the"), ("N", "cat")), ("VP", ("V", "slept"))),
    ("S", ("NP", ("D", "a"), ("N", "dog")), ("VP", ("V", "saw"), ("NP", ("D", "a"), ("N", "dog")))),
    ("N", "dog"),
    ("S", "the", ("N", "dog"), ("NP", ("N", "dog"), "the", ("N", "dog"), ("D", "a"), ("V",))),
]


def fragments(tree):
    """All fragments with their number of productions, as often as they occur."""

    def rooted(node):
        options = []
        for child in node[1:]:
            cut = [(child if isinstance(child, str) else (child[0], "..."), 0)]
            options.append(cut if isinstance(child, str) else cut + rooted(child))
        return [
            ((node[0], *(o[0] for o in chosen)), 1 + sum(o[1] for o in chosen))
            for chosen in itertools.product(*options)
        ]

    def nodes(node):
        yield node
        for child in node[1:]:
            if not isinstance(child, str):
                yield from nodes(child)

    return collections.Counter(f for node in nodes(tree) for f in rooted(node))


@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_subtree(decay):
    """A.T8, D.KS7: Collins and Duffy's recursion against the list of all fragments."""
    X = column(TREES)
    expected = gram(TREES, fragments, lambda f: decay ** f[1])
    np.testing.assert_allclose(k.Subtree(decay)(X), expected, rtol=1e-13)
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        k.Subtree(decay, normalise=True)(X), expected / np.outer(scale, scale), rtol=1e-13
    )
    # children of another encoding, with fewer places for them
    np.testing.assert_allclose(k.Subtree(decay)(X, column(TREES[3:4])), expected[:, 3:4], rtol=1e-13)


# -------------------------------------------------------------------------------------------------
# derivatives


def alignments(x, y):
    """All ways to pair positions of x with positions of y, both ascending: tuples of (i, j)."""
    for size in range(min(len(x), len(y)) + 1):
        for left in itertools.combinations(range(len(x)), size):
            for right in itertools.combinations(range(len(y)), size):
                yield tuple(zip(left, right, strict=True))


def probability_of_pair(x, y, mutation, insertion, end, symbols):
    """p(x, y) of the model, one alignment after the other: the ancestor's symbols are those of the pairs."""

    def emitted(a, b):  # two copies of an ancestral symbol c that is not known
        copy = {
            s: (1 - mutation) * np.eye(len(symbols))[i] + mutation / len(symbols)
            for i, s in enumerate(symbols)
        }
        return float(np.mean(copy[a] * copy[b]))

    total = 0.0
    for pairs in alignments(x, y):
        single = len(x) + len(y) - 2 * len(pairs)
        runs = (1 - insertion) ** (2 * (len(pairs) + 1)) * (insertion / len(symbols)) ** single
        matched = math.prod((1 - end) * emitted(x[i], y[j]) for i, j in pairs)
        total += end * runs * matched
    return total


def test_pair_hmm():
    """A.T8, D.KS7: the sum over all alignments, one by one; a probability, whose sum over all pairs of
    strings is 1; normalised, also of long strings.
    """
    X = ["", "a", "ca", "acg", "gat", "tacga"]
    theta = (0.2, 0.35, 0.15)
    expected = [[probability_of_pair(x, y, *theta, "acgt") for y in X] for x in X]
    found = k.PairHMM(*theta, alphabet="acgt", variance=1.0)(column(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    scale = np.sqrt(np.diag(found))
    normalised = k.PairHMM(*theta, alphabet="acgt", normalise=True)
    np.testing.assert_allclose(normalised(column(X)), found / np.outer(scale, scale), rtol=1e-9)
    every = ["a" * n for n in range(60)]
    assert k.PairHMM(0.2, 0.3, 0.4, alphabet="a")(column(every)).sum() == pytest.approx(1.0, abs=1e-8)
    long = column(["acgt" * 40, "acgg" * 40])
    K = normalised(long)
    assert np.diag(K) == pytest.approx([1.0, 1.0]) and 0 < K[0, 1] < 1e-3


DNA = ["gattaca", "tacat", "cattag", "", "gagataca", "tta"]


@pytest.mark.representative("substring", "automaton", "subtree")
@pytest.mark.parametrize(
    ("make", "X"),
    [
        (lambda d: k.Substring(d), DNA),
        (lambda d: k.Substring(d, automaton=True, normalise=True), DNA),
        (lambda d: k.GapWeighted(3, d), DNA),
        (lambda d: k.GapWeighted(2, d, normalise=True), DNA),
        (lambda d: k.Subtree(d), TREES),
        (
            lambda d: (
                k.GapWeighted(2, d, variance=0.7) * k.Spectrum(2) + 1.3 * k.Substring(d, normalise=True)
            ),
            DNA,
        ),
    ],
    ids=["substring", "automaton", "gap-weighted", "gap-weighted-normalised", "subtree", "composite"],
)
def test_derivative_in_decay(make, X):
    """First and second derivatives in the decay, forward and reverse, against central differences."""
    kernel = make(0.6)
    A = kernel.encode(column(X))
    bar = np.random.default_rng(0).normal(size=(len(X), len(X)))

    def value(decay):
        return jnp.sum(bar * make(decay).block(A, A))

    value, slope, curvature = jax.jit(value), jax.jit(jax.grad(value)), jax.jit(jax.grad(jax.grad(value)))
    h = 1e-5
    np.testing.assert_allclose(slope(0.6), (value(0.6 + h) - value(0.6 - h)) / (2 * h), rtol=1e-7)
    np.testing.assert_allclose(slope(0.6), jax.jvp(value, (0.6,), (1.0,))[1], rtol=1e-12)
    np.testing.assert_allclose(curvature(0.6), (slope(0.6 + h) - slope(0.6 - h)) / (2 * h), rtol=1e-7)


@pytest.mark.parametrize("analytic", [False, True])
def test_forward_stores_nothing(analytic):
    """The reverse pass of a recursion holds the derivative only, not one array for each step."""

    def recursion(theta, x):
        return jax.lax.fori_loop(0, 1000, lambda i, y: theta * y + x, x + 0.0 * theta)

    value, pull = jax.vjp(lambda theta: forward(recursion, analytic)(theta, jnp.ones(50)), 0.9)
    np.testing.assert_allclose(value, 10.0, rtol=1e-12)
    np.testing.assert_allclose(pull(jnp.ones(50))[0], 50 * 100.0, rtol=1e-12)
    assert sum(leaf.size for leaf in jax.tree.leaves(pull) if hasattr(leaf, "size")) <= 2 * 50


def test_sums_products_and_scales_differentiate(rng):
    """Evidence gradients of composites of string, numeric and object kernels, on a table,
    against central differences.
    """
    table = {
        "dna": ["".join(rng.choice(list("acgt"), rng.integers(3, 9))) for _ in range(12)],
        "dose": rng.normal(size=12),
    }
    y = rng.normal(size=12)
    shared = k.ObjectKernel(lambda a, b: float(len(set(a) & set(b))), name="shared")
    kernel = (
        k.GapWeighted(2, 0.5, normalise=True).on("dna") * k.SE(0.8).on("dose")
        + 0.3 * (k.Spectrum(2, normalise=True) + shared).on("dna")
        + k.Linear(0.5).on("dose")
    )
    model = mc.Model(mc.GP(kernel), mc.likelihoods.Gaussian(0.2))
    _, gradient = mc.log_evidence_and_gradient(model, table, y)
    for name, found in gradient.items():
        value = float(next(p.value for p in parameters(model) if p.name == name))
        moved = [
            mc.log_evidence(replace_leaves(model, {name: np.asarray(value + h)}), table, y)
            for h in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(found, (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-7, err_msg=name)


# ------------------------------------------------------------------------------------------------- inputs and
# errors


def test_widths_are_few():
    """New strings reuse compiled code: few widths, none much larger than needed."""
    lengths = np.arange(0, 5000)
    widths = np.array([width(int(n)) for n in lengths])
    assert (widths >= lengths).all() and len(set(widths.tolist())) <= 40
    assert (widths[129:] <= 1.25 * lengths[129:] + 1).all() and (widths[:129] <= lengths[:129] + 16).all()
    kernel = k.GapWeighted(2, 0.5)
    assert {kernel.encode(X).shape[1] for X in (["acg"], ["", "acgtacgtacgt"], ["", ""])} == {16}


def test_inputs():
    """A list, an array, a column of a frame, letters of any script; the empty string is legal."""
    pandas = pytest.importorskip("pandas")
    X = ["naïve", "日本語", "", "日本"]
    kernel = k.Substring(0.5)
    K = kernel(X)
    np.testing.assert_allclose(K, gram(X, substrings, lambda s: 0.5 ** len(s)), rtol=1e-14)
    np.testing.assert_array_equal(kernel(np.array(X)), K)
    np.testing.assert_array_equal(kernel(column(X)), K)
    frame = pandas.DataFrame({"number": [1.0, 2.0, 3.0, 4.0], "text": X})
    np.testing.assert_array_equal(kernel.on("text")(frame), K)
    assert (K[2] == 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Substring(0.0), r"Substring\.decay must be one number above 0"),
        (lambda: k.Substring(1.2), r"Substring\.decay must be between 0 and 1"),
        (lambda: k.GapWeighted(0), r"GapWeighted\.length must be a whole number of at least 1, got 0"),
        (lambda: k.GapWeighted(2.5), r"GapWeighted\.length must be a whole number"),
        (lambda: k.Spectrum(0), r"Spectrum\.k must be a whole number"),
        (lambda: k.Spectrum(2, alphabet="aa"), r"Spectrum\.alphabet must be different symbols"),
        (lambda: k.Spectrum(2, alphabet=""), r"Spectrum\.alphabet must be different symbols"),
        (lambda: k.Spectrum(2, normalise=1), r"Spectrum\.normalise must be True or False"),
        (lambda: k.Mismatch(3, 1), r"Mismatch\.alphabet must be given"),
        (lambda: k.Mismatch(3, 4, alphabet="ab"), r"Mismatch\.m must be a whole number from 0 to 3"),
        (lambda: k.BagOfWords(["a", "a"]), r"BagOfWords\.vocabulary must be different words"),
        (lambda: k.BagOfWords(["a"], [1.0, 2.0]), r"BagOfWords\.weights must be one number for each word"),
        (lambda: k.BagOfWords(["a"], [-1.0]), r"BagOfWords\.weights must be finite"),
        (lambda: k.BagOfWords(alphabet="abc"), r"BagOfWords\.alphabet"),
        (lambda: k.PairHMM(), r"PairHMM needs the symbols there are"),
        (lambda: k.PairHMM(1.0, alphabet="ac"), r"PairHMM\.mutation must be one number between 0 and 1"),
        (lambda: k.Subtree(-0.1), r"Subtree\.decay must be between 0 and 1"),
        (lambda: k.Substring(variance=-1.0), r"Substring\.variance must be positive"),
        (lambda: k.ObjectKernel(3), r"expected a function"),
        (lambda: k.ObjectKernel(np.add), r"ObjectKernel\.function: wrap 'add' in a Python function"),
        (lambda: k.Precomputed(np.ones(3)), r"Precomputed\.gram must be a square matrix"),
        (lambda: k.Precomputed([[1.0, 0.5], [0.2, 1.0]]), r"Precomputed\.gram is not symmetric"),
        (
            lambda: k.Precomputed([[1.0, 2.0], [2.0, 1.0]]),
            r"Precomputed\.gram is not positive semi-definite: smallest eigenvalue -1",
        ),
        (lambda: k.Substring(0.5).bind(2), r"Substring reads one column of text; there are 2"),
        (lambda: k.Subtree(0.5).bind(2), r"Subtree reads one column of trees; there are 2"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (
            k.Spectrum(2, alphabet="acgt"),
            ["acgt", "acnt"],
            r"unknown symbol 'n' at position 2 of 'acnt': Spectrum\.alphabet is 'acgt'",
        ),
        (
            k.GapWeighted(2, alphabet="acgt"),
            ["z" * 100],
            r"unknown symbol 'z' at position 0 of 'z{37}\.\.\.'",
        ),
        (k.Substring(), np.empty((0, 1), dtype=object), r"there are no strings: the list is empty"),
        (k.BagOfWords(), np.empty((0, 1), dtype=object), r"there are no strings: the list is empty"),
        (k.Substring(), column(["a", 3.5]), r"row 1 is 3\.5, of type float: a string kernel reads text"),
        (
            k.Subtree(),
            column(["a"]),
            r"row 0: a tree is a tuple \(label, child, \.\.\.\) of trees and words, got 'a'",
        ),
        (k.Subtree(), column([("S", 3)]), r"row 0: a tree is a tuple .* got 3"),
        (k.Precomputed(np.eye(3)), np.array([[0.0], [3.0]]), r"row 1 is 3: Precomputed reads places 0 to 2"),
        (k.Precomputed(np.eye(3)), np.array([[0.5]]), r"row 0 is 0\.5"),
    ],
)
def test_bad_inputs(kernel, X, message):
    with pytest.raises(InputError, match=message):
        kernel(X)


# ------------------------------------------------------------------------------------------------- other
# objects


def test_object_kernel(rng):
    """Any Python objects, hashable or not; each pair is computed once; a block function gives the same."""
    X = [set(rng.integers(0, 12, 5).tolist()) for _ in range(70)]
    calls = []

    def shared(a, b):
        calls.append((id(a), id(b)))
        return float(len(a & b))

    kernel = k.ObjectKernel(shared, variance=0.5)
    expected = 0.5 * np.array([[float(len(a & b)) for b in X] for a in X])
    np.testing.assert_array_equal(kernel(X), expected)
    assert len(calls) == 70 * 71 // 2
    np.testing.assert_array_equal(kernel(X), expected)
    assert len(calls) == 70 * 71 // 2
    np.testing.assert_array_equal(
        kernel(X[:5], [{1, 2}, {3}]), [[0.5 * len(a & b) for b in ({1, 2}, {3})] for a in X[:5]]
    )
    np.testing.assert_array_equal(
        tiles.diagonal(strip(kernel), tiles.Panels(kernel.encode(X), 128)), np.diag(expected)
    )
    by_block = k.ObjectKernel(
        lambda A, B: np.array([[len(a & b) for b in B] for a in A]), "by_block", blocks=True, variance=0.5
    )
    np.testing.assert_array_equal(by_block(X), expected)
    assert by_block.formula() == "0.5 * ObjectKernel(function=by_block, blocks=True)"
    again = k.parse(by_block.formula(17), functions={"by_block": by_block.function.function})
    np.testing.assert_array_equal(again(X), expected)
    tree = to_json(kernel)
    assert from_json(tree, functions={"shared": shared}).formula(17) == kernel.formula(17)


def test_object_kernel_says_what_is_wrong():
    bad = k.ObjectKernel(lambda a, b: float("nan"), name="bad")
    with pytest.raises(Exception, match=r"the function 'bad' gave shape .* not finite"):
        bad(["a", "b"])


def test_precomputed(rng):
    """A given matrix is the kernel it came from: evidence, gradients, predictions; saved and read back."""
    X = rng.normal(size=(40, 2))
    y, kernel = np.sin(X[:, 0]), k.SE(0.8)
    given_matrix = k.Precomputed(kernel(X), 1.7)
    train, test = np.arange(30.0)[:, None], np.arange(30.0, 40.0)[:, None]
    ours = mc.GP(given_matrix).condition(train, y[:30], noise_variance=0.1)
    theirs = mc.GP(k.SE(0.8, 1.7)).condition(X[:30], y[:30], noise_variance=0.1)
    np.testing.assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(ours.mean(test), theirs.mean(X[30:]), rtol=1e-10)
    np.testing.assert_allclose(ours.covariance(test), theirs.covariance(X[30:]), rtol=1e-9, atol=1e-12)
    gradients = [
        mc.log_evidence_and_gradient(mc.GP(g), Z, y[:30], noise_variance=0.1)[1]["kernel.variance"]
        for g, Z in ((given_matrix, train), (k.SE(0.8, 1.7), X[:30]))
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-9)
    small = k.Precomputed(kernel(X[:3]), 1.7)
    np.testing.assert_array_equal(k.parse(small.formula(17))(train[:3]), small(train[:3]))
    arrays: dict = {}
    tree = to_json(given_matrix, arrays)
    np.testing.assert_array_equal(from_json(tree, arrays)(train), given_matrix(train))


# ------------------------------------------------------------------------------------------------- regression
# on strings


@pytest.mark.slow
def test_regression_on_strings(rng):
    """Condition, learn and predict on lists of strings; the decay is learned by evidence."""
    X = ["".join(rng.choice(list("acgt"), rng.integers(8, 15))) for _ in range(40)]
    truth = mc.GP(k.GapWeighted(2, 0.3, normalise=True, variance=4.0))
    y = truth.sample(X, seed=1)[0] + 0.1 * rng.normal(size=40)
    start = mc.Model(mc.GP(k.GapWeighted(2, 0.7, normalise=True)), mc.likelihoods.Gaussian(0.1))
    fit = mc.fit(start, X[:30], y[:30])
    assert fit.status.converged and 0.1 < float(fit.model.gp.kernel.decay) < 0.6
    at_start, slope = mc.log_evidence_and_gradient(start, X[:30], y[:30])
    assert fit.posterior.log_evidence > at_start + 1.0 and slope["kernel.decay"] < 0
    mean, std = fit.posterior.mean(X[30:]), fit.posterior.std(X[30:])
    assert np.mean((mean - y[30:]) ** 2) < 0.7 * np.var(y[30:]) and (np.abs(mean - y[30:]) < 3 * std).all()
    assert fit.posterior.sample(["acgt", ""], 3, seed=0).shape == (3, 2)
    # leave-one-out against leaving out
    rest = mc.Model(fit.model.gp, fit.model.likelihood).condition(X[1:30], y[1:30])
    np.testing.assert_allclose(fit.posterior.loo().mean[0], rest.mean(X[:1])[0], rtol=1e-8)
    np.testing.assert_allclose(fit.posterior.loo().variance[0], rest.variance(X[:1])[0], rtol=1e-8)


def test_regression_on_trees():
    y = np.array([1.0, -1.0, 1.5, 0.0, 0.3])
    posterior = mc.GP(k.Subtree(0.4, normalise=True)).condition(column(TREES), y, noise_variance=1e-6)
    np.testing.assert_allclose(posterior.mean(column(TREES)), y, atol=1e-4)


def test_weight_space_equals_function_space(rng):
    """A spectrum kernel over a known alphabet is a linear model in the counts."""
    X = ["".join(rng.choice(list("acgt"), 20)) for _ in range(25)]
    y = rng.normal(size=25)
    gp = mc.GP(k.Spectrum(2, alphabet="acgt", normalise=True, variance=1.3))
    dense, weights = (
        gp.condition(X[:20], y[:20], noise_variance=0.3, solver=s) for s in ("dense", "weight-space")
    )
    np.testing.assert_allclose(dense.log_evidence, weights.log_evidence, rtol=1e-11)
    np.testing.assert_allclose(dense.mean(X[20:]), weights.mean(X[20:]), rtol=1e-9)


def test_promoters(data_dir):
    """106 strings of DNA: leave-one-out label regression tells promoters from other strings."""
    rows = [line.split(",") for line in (data_dir / "promoter_gene_sequences.csv").read_text().split()[1:]]
    X, y = [sequence for _, sequence in rows], np.array([1.0 if label == "+" else -1.0 for label, _ in rows])
    assert len(X) == 106 and {len(x) for x in X} == {57} and y.sum() == 0
    model = mc.Model(mc.GP(k.Spectrum(4, alphabet="acgt", normalise=True)), mc.likelihoods.Gaussian(0.3))
    fit = mc.fit(model, X, y)
    wrong = np.mean(np.sign(fit.posterior.loo().mean) != y)
    assert fit.status.converged and wrong < 0.25
    assert fit.posterior.log_evidence > mc.log_evidence(
        mc.GP(k.Constant()), np.zeros((106, 1)), y, noise_variance=1.0
    )
