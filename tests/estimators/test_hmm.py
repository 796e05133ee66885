"""mercer.HMM: the interface, hmmlearn's numbers, choices, topologies, degenerate data, pictures,
command line.
"""

from __future__ import annotations

import csv
import pickle

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from typer.testing import CliRunner

import mercer as mc
from mercer.em import HMM, CategoricalEmission, EMError, GaussianEmission, Gaussians

TRUTH = HMM(
    [0.5, 0.5],
    [[0.9, 0.1], [0.2, 0.8]],
    GaussianEmission(Gaussians([[0.0, 0.0], [4.0, 1.0]], [np.eye(2), 0.5 * np.eye(2)])),
)


def sequences(lengths=(80, 50, 1), seed=0):
    rng = np.random.default_rng(seed)
    return [TRUTH.sample(n, rng)[0] for n in lengths]


def test_it_runs_as_promised():
    O1, O2 = sequences((60, 40))
    p0, A0, m0, c0 = (
        np.full(2, 0.5),
        np.full((2, 2), 0.5),
        np.array([[0.5, 0.0], [3.0, 1.0]]),
        np.array([np.eye(2)] * 2),
    )
    init = {"initial": p0, "transition": A0, "means": m0, "covariances": c0}
    hmm = mc.HMM(n_states=2, emission="gaussian", max_evaluations=10, tol=0.0, restarts=0, init=init).fit(
        [O1, O2]
    )
    assert hmm.initial_.shape == (2,) and hmm.transition_.shape == (2, 2) and hmm.means_.shape == (2, 2)
    assert hmm.covariances_.shape == (2, 2, 2) and len(hmm.history_) == 11 and hmm.n_iter_ == 10
    assert (np.diff(hmm.history_) > -1e-9).all()
    lasts = 1 / (1 - hmm.transition_[0, 0])
    assert hmm.summary().startswith(
        f"2 hidden states: once entered, state 0 lasts {lasts:.3g} steps, state 1 "
    )
    assert hmm.viterbi(O1).shape == (60,) and hmm.predict_proba(O1).shape == (60, 2)
    assert hmm.score_samples([O1, O2]).sum() == pytest.approx(hmm.history_[-1], rel=1e-12)
    peer = GaussianHMM(
        2, "full", n_iter=10, tol=-np.inf, init_params="", covars_prior=0.0, covars_weight=2.0, min_covar=0.0
    )
    peer.startprob_, peer.transmat_, peer.means_, peer.covars_ = p0, A0, m0, c0
    peer.fit(np.concatenate([O1, O2]), [60, 40])
    np.testing.assert_allclose(hmm.initial_, peer.startprob_, atol=1e-6)
    np.testing.assert_allclose(hmm.transition_, peer.transmat_, atol=1e-6)
    np.testing.assert_allclose(hmm.means_, peer.means_, atol=1e-6)
    np.testing.assert_allclose(hmm.covariances_, peer.covars_, atol=1e-6)


def test_the_truth_is_found_from_data_alone():
    hmm = mc.HMM(2, random_state=0).fit(sequences((400, 300)))
    order = hmm.means_[:, 0].argsort()
    np.testing.assert_allclose(hmm.means_[order], TRUTH.emission.gaussians.means, atol=0.25)
    np.testing.assert_allclose(hmm.transition_[np.ix_(order, order)], TRUTH.transition, atol=0.06)
    assert hmm.converged_


@pytest.mark.parametrize("criterion", ["bic", "aic", "held-out"])
def test_the_number_of_states_is_chosen(criterion):
    data = sequences((150, 120, 100))
    hmm = mc.HMM([1, 2], "gaussian", criterion=criterion, random_state=0, covariance_type="diag").fit(data)
    assert hmm.n_states_ == 2 and hmm.selection_[1] > hmm.selection_[2]
    if criterion == "bic":
        assert hmm.selection_[2] == pytest.approx(hmm.bic(data), rel=1e-12) and hmm.aic(data) < hmm.bic(data)


def test_symbols():
    truth = HMM(
        [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], CategoricalEmission([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    )
    rng = np.random.default_rng(1)
    data = [truth.sample(n, rng)[0].tolist() for n in (400, 300)]
    hmm = mc.HMM(2, "categorical", random_state=0, restarts=4, n_symbols=4, pseudo_count=0.5).fit(data)
    order = hmm.emission_[:, 0].argsort()[::-1]
    np.testing.assert_allclose(hmm.emission_[order][:, :3], truth.emission.probabilities, atol=0.08)
    assert (hmm.emission_[:, 3] > 0).all() and np.isfinite(hmm.score([[3, 0]]))  # never seen, not impossible
    assert "p(3)" in hmm.summary()
    with pytest.raises(ValueError, match="symbol 9"):
        hmm.score([[9]])
    bare = mc.HMM(2, "categorical", random_state=0, n_symbols=4).fit(data)
    assert bare.score([[3, 0]]) == -np.inf
    with pytest.raises(ValueError, match="probability zero"):
        bare.predict([3, 0])


def test_mixtures_of_gaussians_in_states():
    rng = np.random.default_rng(2)
    path = TRUTH.sample(600, rng)[1]
    X = np.where(path == 0, rng.choice([-6.0, 0.0], 600), rng.choice([6.0, 12.0], 600)) + 0.4 * rng.normal(
        size=600
    )
    hmm = mc.HMM(2, "mixture", n_components=2, random_state=0, restarts=4).fit(X)
    assert (
        hmm.means_.shape == (2, 2, 1)
        and hmm.covariances_.shape == (2, 2, 1, 1)
        and hmm.weights_.shape == (2, 2)
    )
    np.testing.assert_allclose(np.sort(hmm.means_.ravel()), [-6, 0, 6, 12], atol=0.25)
    assert "x0 (0)" in hmm.summary() and "x0 (1)" in hmm.summary()
    again = mc.HMM(
        2,
        "mixture",
        init={
            "means": hmm.means_,
            "covariances": hmm.covariances_,
            "weights": hmm.weights_,
            "transition": hmm.transition_,
            "initial": hmm.initial_,
        },
        restarts=0,
    ).fit(X)
    assert again.log_likelihood_ == pytest.approx(hmm.log_likelihood_, abs=1e-3)
    tied = mc.HMM(2, "mixture", covariance_type="tied", random_state=0).fit(X)
    assert tied.covariances_.shape == (1, 1)


def test_topologies_are_kept():
    data = sequences((60, 60))
    hmm = mc.HMM(3, topology="left-right", random_state=0, pseudo_count=0.1).fit(data)
    assert (
        (hmm.transition_[np.tril_indices(3, -1)] == 0).all()
        and hmm.transition_[0, 2] == 0
        and hmm.initial_[0] == 1
    )
    ring = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    hmm = mc.HMM(3, topology=ring, random_state=0, max_evaluations=500).fit(data)
    assert (hmm.transition_[ring == 0] == 0).all()
    with pytest.raises(ValueError, match="topology must be"):
        mc.HMM(3, topology="star").fit(data)
    with pytest.raises(ValueError, match="way out"):
        mc.HMM(3, topology=np.zeros((3, 3))).fit(data)


def test_one_sequence_and_several():
    data = sequences()
    hmm = mc.HMM(2, random_state=0).fit(data)
    paths = hmm.predict(data)
    assert [len(p) for p in paths] == [80, 50, 1] and isinstance(hmm.predict(data[0]), np.ndarray)
    np.testing.assert_array_equal(paths[1], hmm.viterbi(data[1]))
    np.testing.assert_allclose(hmm.score_samples(data).sum(), hmm.score(data) * 131, rtol=1e-12)
    np.testing.assert_allclose(hmm.filter(data[0])[-1], hmm.predict_proba(data[0])[-1], atol=1e-12)
    online = hmm.online()
    for row in data[0]:
        now = online.update(row)
    np.testing.assert_allclose(now, hmm.filter(data[0])[-1], atol=1e-12)
    X, states = hmm.sample(30, random_state=0)
    assert X.shape == (30, 2) and states.shape == (30,)
    assert hmm.sample_states(data[0], 5, random_state=0).shape == (5, 80)
    stacked = mc.HMM(2, random_state=0).fit(np.stack([data[0][:50], data[1]]))
    assert stacked.score(np.stack([data[0][:50], data[1]])) == pytest.approx(
        stacked.log_likelihood_ / 100, rel=1e-12
    )


def test_missing_values_are_steps_in_the_dark():
    data = sequences((100,))
    data[0][10], data[0][20, 0] = np.nan, np.nan
    hmm = mc.HMM(2, random_state=0).fit(data)
    assert np.isfinite(hmm.covariances_).all() and np.isfinite(hmm.predict_proba(data[0])).all()


def test_it_is_an_estimator():
    hmm = mc.HMM(2, random_state=0)
    assert clone(hmm).get_params() == hmm.get_params()
    for use in ("predict", "predict_proba", "score", "filter", "bic"):
        with pytest.raises(NotFittedError):
            getattr(hmm, use)(sequences()[0])
    hmm.fit(sequences())
    again = pickle.loads(pickle.dumps(hmm))
    np.testing.assert_array_equal(again.predict(sequences()[0]), hmm.predict(sequences()[0]))


@pytest.mark.parametrize("data", [np.zeros((6, 2)), np.ones((2, 1)), [np.zeros(1), np.zeros(1)]])
def test_degenerate_sequences_give_finite_parameters(data):
    hmm = mc.HMM(2, random_state=0).fit(data)
    assert all(np.isfinite(x).all() for x in (hmm.means_, hmm.covariances_, hmm.transition_, hmm.initial_))
    np.testing.assert_allclose(hmm.transition_.sum(1), 1.0)


def test_wrong_settings_are_refused_in_words():
    data = sequences()
    for settings, words in (
        ({"n_states": 0}, "n_states must be a whole number"),
        ({"emission": "weibull"}, "emission must be one of"),
        ({"init": {"A": 1}}, r"not \['A'\]"),
        ({"criterion": "best"}, "criterion"),
        ({"n_states": 500}, "500 groups"),
        ({"init": {"transition": np.eye(3)}}, r"transition must have the shape \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=words):
            mc.HMM(**settings).fit(data)
    with pytest.raises(ValueError, match="there is no sequence"):
        mc.HMM().fit([])
    with pytest.raises(ValueError, match="sequence 1 must have the shape"):
        mc.HMM().fit([np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(EMError, match="probability zero"):
        mc.HMM(2, "categorical", init={"emission": [[1.0, 0.0], [1.0, 0.0]]}).fit([[0, 1]])
    with pytest.warns(ConvergenceWarning, match="max_evaluations=1 reached"):
        mc.HMM(2, max_evaluations=1, tol=1e-15, restarts=0, random_state=0).fit(data)


def test_pictures_of_paths_and_transitions():
    data = sequences()[0]
    hmm = mc.HMM(2, random_state=0).fit(data)
    ax = mc.viz.state_path(hmm, data, ylabel="x")
    shown = sum(len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o")
    assert shown == 80 and ax.get_ylabel() == "x"
    graph = mc.viz.transition_graph(hmm)
    assert sum(text.get_text() in ("0", "1") for text in graph.texts) == 2
    assert mc.viz.ellipses(hmm, data).patches
    with pytest.raises(TypeError, match="cannot draw the transitions"):
        mc.viz.transition_graph(object())


def test_the_command_line_writes_states_by_group(tmp_path):
    from mercer.app.cli import app

    data, out, picture = tmp_path / "d.csv", tmp_path / "o.csv", tmp_path / "p.png"
    rows = [
        [name, *map(repr, row.tolist())]
        for name, part in zip("ab", sequences((60, 40)), strict=True)
        for row in part
    ]
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([["who", "x", "y"], *rows])
    arguments = [
        "hmm",
        str(data),
        "--states",
        "2",
        "--group",
        "who",
        "--out",
        str(out),
        "--plot",
        str(picture),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Transitions" in result.output and "2 sequences" in result.output and picture.stat().st_size > 1000
    with out.open() as file:
        written = list(csv.DictReader(file))
    assert len(written) == 100 and all(
        abs(float(r["p_0"] or 0) + float(r["p_1"] or 0) - 1) < 1e-9 for r in written
    )
    counts = tmp_path / "counts.csv"
    rng = np.random.default_rng(0)
    numbers = rng.poisson(np.repeat([2, 15, 2, 15], 20))
    counts.write_text("calls\n" + "\n".join(map(str, numbers)) + "\n")
    result = CliRunner().invoke(app, ["hmm", str(counts), "--emission", "poisson", "--restarts", "0"])
    assert result.exit_code == 0 and "mean calls" in result.output, result.output
    wrong = CliRunner().invoke(app, ["hmm", str(data), "--emission", "poisson", "--features", "x"])
    assert wrong.exit_code == 1 and "must hold counts" in wrong.output
    wrong = CliRunner().invoke(app, ["hmm", str(data), "--group", "nobody"])
    assert wrong.exit_code == 1 and "no column 'nobody'" in wrong.output
