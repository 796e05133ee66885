"""Long computations tell how far they are, and Ctrl-C leaves nothing behind."""

import io
import sys
import time
import types

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
    assert not progress.listening()


def test_predictions_tell_their_share(said, monkeypatch):
    monkeypatch.setattr("mercer.posteriors.gaussian.BLOCK_ROWS", 40)
    model = mc.GPRegressor(k.SE([1.0, 1.0]), progress=True, max_evaluations=2)
    with pytest.warns(mc.learning.FitWarning):
        model.fit(X, Y)
    assert any(line.startswith("fitting: evaluation 1 ") and ": factor 70%" in line for line in said)
    assert any(": inverse 100%" in line for line in said) and any(
        line.startswith("conditioning") for line in said
    )
    said.clear()
    model.predict(X[:100], return_std=True)
    assert [line.split(",")[0] for line in said] == [f"predicting: rows {share}%" for share in (40, 80, 100)]
    model.set_params(progress=False)
    said.clear()
    model.predict(X[:100])
    assert not said


def test_interrupting_a_factorisation(said):
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1))
    expected = model.condition(X, Y).log_evidence

    def interrupted(done, total, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.condition(X, Y, progress=interrupted)
    assert not progress.listening()
    assert model.condition(X, Y).log_evidence == expected


def test_interrupting_a_fit_within_an_evaluation(said):
    calls = []

    def once(done, total, text):
        calls.append(text)
        if calls.count("factor") == 15 and text == "factor":
            raise KeyboardInterrupt

    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1))
    with pytest.warns(mc.learning.FitWarning, match="interrupted"):
        fit = mc.fit(model, X, Y, progress=once)
    assert fit.status.interrupted and not progress.listening()
    # the evidence is that of the model it returns: no half-finished factor was used
    assert fit.model.condition(X, Y).log_evidence == pytest.approx(fit.posterior.log_evidence, rel=1e-12)
    assert fit.posterior.log_evidence == pytest.approx(fit.value, rel=1e-10)


def test_the_climb_is_followed():
    values = []
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Gaussian(0.1))
    with progress.followed(values.append):
        fit = mc.fit(model, X, Y, progress=False)
    assert values == [e.value for e in fit.history] and len(values) > 2
    mc.fit(model, X, Y, progress=False)  # nobody follows any more
    assert len(values) == len(fit.history)


def hears(heard):
    return lambda done, total, text: heard.append((done, total, text))


def test_the_listener_outside_hears_unless_the_inner_one_is_told_otherwise(said):
    heard, inner = [], []
    with progress.shown("outside", hears(heard)):
        for show in (True, None, False, hears(inner)):
            with progress.shown("inside", show):
                progress.tell(0.5, 1.0, f"{show is True}")
    assert heard == [(0.5, 1.0, "True"), (0.5, 1.0, "False")] and inner == [(0.5, 1.0, "False")]
    with progress.shown("outside", False):
        with progress.shown("inside"):
            progress.tell(1, 2, "rows")
        assert not said
        with progress.shown("inside", True):
            progress.tell(1, 2, "rows")
    assert said == ["inside: rows 1 of 2"]


@pytest.mark.slow
def test_chains_inside_conditioning_are_heard_by_its_listener():
    heard = []
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Bernoulli())
    rule = mc.inference.MCMC(draws=25, tune=0, chains=2, sampler="elliptical")
    model.condition(X[:20], np.sign(Y[:20]), rule, progress=hears(heard))
    assert heard == [(25, 25, "draws")]


def test_a_line_on_standard_error(capsys):
    with progress.shown("counting", True, "Ctrl-C ends it"):
        progress.tell(0.5, 1.0, "rows")
    assert not progress.listening()
    with progress.shown("counting"):  # no terminal
        progress.tell(0.5, 1.0, "rows")
    out = capsys.readouterr()
    assert out.out == "" and out.err.count("counting: rows 50%; Ctrl-C ends it") == 1


def terminal(monkeypatch, width: int) -> io.StringIO:
    """What a terminal of so many columns shows."""
    from rich.console import Console

    screen = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda stderr: Console(file=screen, force_terminal=True, width=width)
    )
    return screen


def test_in_a_wide_terminal_it_has_a_bar(monkeypatch):
    screen = terminal(monkeypatch, 80)
    with progress.shown("counting", True):
        progress.tell(150, 400, "draws")
    assert "━━━━━━────────── counting: draws 150 of 400" in screen.getvalue()
    assert [progress.bar(share) for share in (-1, 1 / 32, 1)] == ["─" * 16, "╸" + "─" * 15, "━" * 16]


def test_in_a_terminal_one_line_is_written_over(monkeypatch):
    screen = terminal(monkeypatch, 30)
    with progress.shown("counting", True):
        progress.tell(0.5, 1.0, "rows[0] of a line that is far too long for the screen")
    assert "counting: r …  screen 50%\n" in screen.getvalue()  # nothing wraps, and [0] is no markup


def test_in_a_notebook_it_shows_by_default_and_is_cleared(monkeypatch, capsys):
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    clock = seconds(monkeypatch)
    with progress.shown("counting"):
        progress.tell(0.25, 1.0, "rows")  # within the first second: nothing
        clock.append(2.0)
        progress.tell(0.5, 1.0, "rows")
        progress.tell(0.6, 1.0, "rows")  # too soon after the last
    lines = capsys.readouterr().err.split("\r")
    assert [line.strip() for line in lines] == ["", "counting: rows 50%, about 4 s left", "", ""]
    assert all(len(line) < 80 for line in lines)


def test_piped_commands_write_plain_lines(monkeypatch, capsys):
    clock = seconds(monkeypatch)
    with progress.in_lines(), progress.shown("counting"):
        for now in (1.0, 3.0, 5.0, 14.0):
            clock.append(now)
            progress.tell(now / 20.0, 1.0, "rows")
    with progress.shown("counting"):  # in Python, piped: silent
        clock.append(100.0)
        progress.tell(0.5, 1.0, "rows")
    assert capsys.readouterr().err.splitlines() == [
        "counting: rows 15%, about 17 s left",
        "counting: rows 70%, about 6 s left",
    ]


def test_notebooks_are_told_by_their_shell(monkeypatch):
    assert not progress.in_notebook()

    class ZMQInteractiveShell:
        pass

    shell = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert progress.in_notebook()
    shell.get_ipython = object
    assert not progress.in_notebook()


def seconds(monkeypatch):
    """A clock that stands at the last of these."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[-1])
    return now


def test_the_line_says_what_it_counts(said):
    with progress.shown("fitting", True, "Ctrl-C keeps the best"):
        progress.tell(1, None, "evaluation 1: -3.20")
        progress.tell(0.5, 1.0, "factor")
        progress.tell(40, 100, "rows[0]")
    assert said == [
        "fitting: evaluation 1: -3.20; Ctrl-C keeps the best",
        "fitting: evaluation 1: -3.20: factor 50%; Ctrl-C keeps the best",
        "fitting: evaluation 1: -3.20: rows[0] 40 of 100; Ctrl-C keeps the best",
    ]


def test_progress_is_checked():
    with (
        pytest.raises(ValueError, match="progress must be True, False, None or a function"),
        progress.shown("x", 2),
    ):
        pass


def test_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock = progress.Clock()
    assert clock.says(0.0, 1.0, "factor") == "factor 0%"
    now[0] = 10.0
    assert clock.says(0.25, 1.0, "factor") == "factor 25%, about 30 s left"
    now[0] = 11.0
    assert clock.says(0.5, 1.0, "inverse") == "inverse 50%"  # another part begins
    now[0] = 21.0
    assert clock.says(100, 200, "draws") == "draws 100 of 200"
    now[0] = 26.0
    assert clock.says(150, 200, "draws") == "draws 150 of 200, about 5 s left"


def test_budgets_in_words():
    found = [progress.seconds_of(b) for b in (5, 1e-9, "2min", "1.5s", "7", " 0.5 h ")]
    assert found == [5.0, 1e-9, 120.0, 1.5, 7.0, 1800.0]
    for bad in ("soon", "-3s", 0, "3 weeks", "", "1..5s"):
        with pytest.raises(ValueError, match="budget must be a time"):
            progress.seconds_of(bad)


def test_a_deadline_and_its_share(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    deadline = progress.Deadline.after("20s")
    now[0] = 110.0
    half = deadline.share(0.5)
    assert deadline.left() == 10.0 and half.left() == 5.0 and not half.passed()
    now[0] = 116.0
    assert half.passed() and half.left() == 0.0 and not deadline.passed()
    deadline.check()
    with pytest.raises(progress.DeadlineReached):
        half.check()


def test_work_is_stopped_once_at_its_first_step_after_the_deadline(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with progress.within(progress.Deadline.after(10)) as watch:
        now[0] = 4.0
        progress.tell(1, 3, "steps")
        now[0] = 11.0
        progress.tell(3, 3, "steps")  # finished: nothing to stop
        assert watch.working == 7.0 and not watch.reached
        with pytest.raises(progress.DeadlineReached):
            progress.tell(1, 3, "more")
        progress.tell(2, 3, "what keeps the results")
    assert watch.reached
    progress.tell(1, 3, "outside")
    early = progress.Deadline.after(1)
    with progress.within(early), progress.within(progress.Deadline.after(10)) as inner:
        assert inner.deadline is early
    assert not issubclass(progress.DeadlineReached, KeyboardInterrupt)


def test_chains_keep_what_they_drew_before_a_deadline():
    """Whatever `progress` says: nobody listens, yet the deadline is kept."""
    model = mc.Model(mc.GP(k.SE([1.0, 1.0])), mc.likelihoods.Bernoulli())
    rule = mc.inference.MCMC(draws=10**6, tune=0, chains=2, sampler="elliptical", progress=False)
    began = time.perf_counter()
    with progress.within(progress.Deadline.after("2s")) as watch:
        post = model.condition(X[:20], np.sign(Y[:20]), rule)
    assert watch.reached and post.chains.interrupted and 25 <= post.diagnostics.draws < 10**6
    assert time.perf_counter() - began < 60
