"""Kernels on graphs: functions of the Laplacian by eigenvectors, against functions of matrices. E.K3."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import expm, fractional_matrix_power
from scipy.sparse.csgraph import laplacian

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.kernels.families import graphs
from mercer.params import ParameterError
from mercer.persist import from_json, to_json


def adjacency(parts: int = 1, seed: int = 0) -> np.ndarray:
    """Weights (12, 12) of a ring with chords, in one or several parts; the last node has no edge."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(0.2, 2.0, (12, 12)) * (rng.random((12, 12)) < 0.2), 1)
    W += np.diag(np.ones(11), 1)
    W[np.arange(12)[:, None] * parts // 11 != np.arange(12) * parts // 11] = 0.0
    W[:, 11] = 0.0
    return W + W.T


def scaled(K: np.ndarray) -> np.ndarray:
    """With an average variance of 1.7."""
    return 1.7 * K / np.diag(K).mean()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_covariances_are_functions_of_the_laplacian(parts, normalised):
    """exp(-t L) and (2 nu / l^2 + L)^-nu by SciPy's functions of matrices and its Laplacian, for connected
    graphs and others; dense and sparse weights are the same; parts without an edge between are independent.
    """
    W = adjacency(parts)
    graph, nodes = k.Graph.from_adjacency(W, normalised=normalised), np.arange(12.0)[:, None]
    assert graph == k.Graph.from_adjacency(sp.csr_matrix(W), normalised=normalised)
    L = laplacian(W, normed=normalised)
    np.testing.assert_allclose(graph.laplacian.toarray(), L, atol=1e-15)
    heat = k.GraphDiffusion(graph, 0.9, 1.7)(nodes)
    np.testing.assert_allclose(heat, scaled(expm(-0.5 * 0.9**2 * L)), atol=1e-13)
    matern = k.GraphMatern(graph, 0.9, 1.3, 1.7)(nodes)
    power = fractional_matrix_power(2 * 1.3 / 0.9**2 * np.eye(12) + L, -1.3)
    np.testing.assert_allclose(matern, scaled(power), atol=1e-12)
    if parts > 1:
        assert abs(heat[0, 10]) < 1e-15 and abs(matern[0, 10]) < 1e-15


def test_a_large_nu_is_diffusion():
    graph, nodes = k.Graph.from_adjacency(adjacency()), np.arange(12.0)[:, None]
    np.testing.assert_allclose(
        k.GraphMatern(graph, 0.9, 1e7)(nodes), k.GraphDiffusion(graph, 0.9)(nodes), atol=1e-6
    )


def test_few_modes_are_those_of_the_full_decomposition(monkeypatch):
    """Of a graph in two parts, one large enough for sparse eigenvectors; equal eigenvalues stay together."""
    monkeypatch.setattr(graphs, "MOST_NODES", 100)
    ring = np.roll(np.eye(600), 1, 0)
    W = sp.block_diag([ring + ring.T, adjacency()[:5, :5]])
    with pytest.raises(ParameterError, match=r"605 nodes, more than the 100 .* modes=500"):
        k.Graph.from_adjacency(W)
    few, nodes = k.Graph.from_adjacency(W, modes=21), np.arange(605.0)[:, None]
    full = k.Graph.from_adjacency(W, modes=605)
    kernel = k.GraphDiffusion(few, 15.0)
    assert few.spectrum[0].size == 20 == kernel.rank(1)  # the last one is half of a pair
    np.testing.assert_allclose(few.spectrum[0], full.spectrum[0][:20], atol=1e-12)
    phi, U = np.exp(-0.5 * 15.0**2 * full.spectrum[0]), full.spectrum[1]
    expected = (U[:, :20] * phi[:20]) @ U[:, :20].T * 605 / phi[:20].sum()
    np.testing.assert_allclose(kernel(nodes), expected, atol=1e-9)
    assert phi[20:].sum() / phi.sum() < kernel.left_out()
    assert 0 < k.GraphDiffusion(few, 60.0).left_out() < 1e-3
    assert k.GraphDiffusion(full, 15.0).left_out() == 0.0


def test_nodes_and_numbers_are_learned_together(rng, tmp_path):
    """A table with a column of nodes and one of numbers: hyperparameters of the spectrum are found by their
    gradient, nodes without data are predicted from their neighbours, and the model comes back from its file.
    """
    towns = [f"town {i}" for i in range(15)]
    graph = k.Graph(itertools.pairwise(towns))
    kernel = k.GraphMatern(graph, 3.0).on("town") * k.SE(1.0).on("day")
    place, day = rng.integers(0, 15, 60), rng.uniform(0, 3, 60)
    place = np.where(place == 7, 6, place)
    names = np.array(towns, object)
    y = np.sin(place / 3.0) * np.cos(day) + 0.05 * rng.normal(size=60)
    model = mc.GPRegressor(kernel).fit({"town": names[place], "day": day}, y)
    before, gradient = mc.log_evidence_and_gradient(
        mc.Model(mc.GP(kernel), mc.likelihoods.Gaussian(0.1)), {"town": names[place], "day": day}, y
    )
    lengthscale = next(name for name in gradient if "factors.0" in name and "lengthscale" in name)
    longer = k.GraphMatern(graph, 3.0 + 1e-5).on("town") * k.SE(1.0).on("day")
    after = mc.log_evidence_and_gradient(
        mc.Model(mc.GP(longer), mc.likelihoods.Gaussian(0.1)), {"town": names[place], "day": day}, y
    )[0]
    assert gradient[lengthscale] == pytest.approx((after - before) / 1e-5, rel=1e-3)
    new = {"town": [towns[7]], "day": [1.0]}
    assert model.predict(new)[0] == pytest.approx(np.sin(7 / 3) * np.cos(1.0), abs=0.1)
    model.save(tmp_path / "towns.mercer")
    assert mc.load(tmp_path / "towns.mercer").predict(new) == pytest.approx(model.predict(new), abs=1e-12)
    with pytest.raises(InputError, match=r"row 1 is 'Atlantis', which is not a node of the graph; it has 15"):
        model.predict({"town": [towns[0], "Atlantis"], "day": [0.0, 0.0]})


def test_saved_and_equal():
    """A graph comes back from JSON with its names, weights and settings; names are text or numbers."""
    graph = k.Graph([("a", 1), (1, "b")], [0.3, 2.0], ["b", "a", 1, 2.5], modes=2, normalised=True)
    again = from_json(to_json(graph))
    assert again == graph and hash(again) == hash(graph) and again.nodes == ("b", "a", 1, 2.5)
    assert graph != k.Graph(graph.edges, graph.weights, graph.nodes)
    assert repr(graph) == (
        "Graph([['a', 1], [1, 'b']], weights=[0.3, 2], nodes=['b', 'a', 1, 2.5], modes=2, normalised=1)"
    )
    assert repr(k.Graph(itertools.pairwise(range(40)))) == "Graph(40 nodes, 39 edges)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Graph([("a", "b", 2.0)]), "pairs of nodes"),
        (lambda: k.Graph([("a", "b"), ("b", "a")]), r"\('b', 'a'\) is given twice"),
        (lambda: k.Graph([("a", "a")]), "joins a node to itself"),
        (lambda: k.Graph([("a", "b")], [-1.0]), "1 positive numbers"),
        (lambda: k.Graph([("a", "b")], nodes=["a"]), "the end 'b', which is not in nodes"),
        (lambda: k.Graph([], nodes=["a", "a"]), "a name twice"),
        (lambda: k.Graph([]), "at least one node"),
        (lambda: k.Graph([("a", "b")], modes=3), "between 1 and the number of nodes, 2"),
        (lambda: k.Graph.from_adjacency([[0, 1], [0, 0]]), "not symmetric"),
        (lambda: k.Graph.from_adjacency(np.zeros((2, 3))), "square"),
        (lambda: k.Graph([], nodes="abc", modes=2).spectrum, "a larger `modes`"),
        (lambda: k.GraphMatern(k.Graph([("a", "b")]))(np.zeros((2, 2))), "one column of nodes"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
