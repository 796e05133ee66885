"""Long computations tell how far they are, and Ctrl-C leaves nothing behind."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import progress
from mercer.linalg import blocked

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (120, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)


@pytest.fixture
def said(monkeypatch):
    """Small panels, and what would stand on the line."""
    monkeypatch.setattr(blocked, "FROM", 50)
    monkeypatch.setattr(blocked, "PANEL", 40)
    lines = []
    monkeypatch.setattr(progress.Line, "say", lambda self, text: lines.append(text) if self.show else None)
    return lines


def test_conditioning_tells_its_share(said):
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1))
    post = model.condition(X, Y, progress=True)
    assert [line.split(",")[0] for line in said] == [
        f"conditioning: factor {share}%" for share in (70, 96, 100)
    ]
    assert "about 0 s left" in said[1] and "left" not in said[-1]
    said.clear()
    quiet = model.condition(X, Y, progress=False)
    assert not said and quiet.log_evidence == post.log_evidence
    assert not blocked.listening()


def test_predictions_tell_their_share(said, monkeypatch):
    monkeypatch.setattr("mercer.posteriors.gaussian.BLOCK_ROWS", 40)
    model = mc.GPRegressor(k.SE([1.0, 1.0]), verbose=True, max_evaluations=2)
    with pytest.warns(mc.learning.FitWarning):
        model.fit(X, Y)
    assert any(line.startswith("fitting: evaluation 1 ") and ": factor 70%" in line for line in said)
    assert any(": inverse 100%" in line for line in said) and any(
        line.startswith("conditioning") for line in said
    )
    said.clear()
    model.predict(X[:100], return_std=True)
    assert [line.split(",")[0] for line in said] == [f"predicting: rows {share}%" for share in (40, 80, 100)]
    model.set_params(verbose=False)
    said.clear()
    model.predict(X[:100])
    assert not said


def test_interrupting_a_factorisation(said, monkeypatch):
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1))
    expected = model.condition(X, Y).log_evidence

    def interrupted(self, part, share):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.Line, "hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.condition(X, Y)
    assert not blocked.listening()
    assert model.condition(X, Y).log_evidence == expected


def test_interrupting_a_fit_within_an_evaluation(said, monkeypatch):
    calls = []
    hear = progress.Line.hear

    def once(self, part, share):
        calls.append(part)
        if len(calls) == 20:
            raise KeyboardInterrupt
        hear(self, part, share)

    monkeypatch.setattr(progress.Line, "hear", once)
    with pytest.warns(mc.learning.FitWarning, match="interrupted"):
        fit = mc.fit(mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1)), X, Y)
    assert fit.status.interrupted and not blocked.listening()
    # the evidence is that of the model it returns: no half-finished factor was used
    assert fit.model.condition(X, Y).log_evidence == pytest.approx(fit.posterior.log_evidence, rel=1e-12)
    assert fit.posterior.log_evidence == pytest.approx(fit.value, rel=1e-10)


def test_the_listener_outside_hears_alone():
    heard = []
    with (
        blocked.progress(lambda part, share: heard.append((part, share))),
        progress.shown("inside", True) as tell,
    ):
        tell("rows", 0.5)
    assert heard == [("rows", 0.5)]


def test_a_line_on_standard_error(capsys):
    with progress.shown("counting", True) as tell:
        tell("rows", 0.5)
    assert not blocked.listening()
    with progress.shown("counting") as tell:  # no terminal
        tell("rows", 0.5)
    out = capsys.readouterr()
    assert out.out == "" and out.err.count("counting: rows 50%") <= 1


def test_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock = progress.Clock()
    assert clock.says("factor", 0.0) == "factor 0%"
    now[0] = 10.0
    assert clock.says("factor", 0.25) == "factor 25%, about 30 s left"
    now[0] = 11.0
    assert clock.says("inverse", 0.5) == "inverse 50%"  # another part begins
