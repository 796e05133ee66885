"""`mercer.assess`: a data set where Laplace must be rejected, one where all rules agree, and bad input.

Budgets are generous so that nothing depends on the speed of the machine: sampling ends when it is good
enough.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import mercer as mc
from mercer import datasets, viz
from mercer import kernels as k
from mercer.inference import EP, KL, Laplace, ScaleMixture
from mercer.learning import assessment
from mercer.likelihoods import Bernoulli, MultinomialProbit, StudentT
from mercer.progress import Deadline, DeadlineReached, within
from mercer.sampling import anneal, chains
from mercer.tables import text_table

LINE = datasets.toy_classification_1d(0)
X, Y = np.asarray(LINE.X)[::2], np.asarray(LINE.y)[::2]


@pytest.mark.slow
def test_laplace_is_rejected_where_the_posterior_is_skewed():
    """A.P4: with a large signal variance Laplace's probabilities in the left cluster are far too cautious;
    EP's are right.
    """
    verdict = mc.assess(mc.Model(mc.GP(k.SE(2.6, 49.0)), Bernoulli()), X, Y, budget="5min")
    assert verdict.reference_ok and verdict["Laplace"].trusted is False and verdict["EP"].trusted is True
    assert verdict["Laplace"].prediction_error > 2 * verdict["EP"].prediction_error
    assert verdict["Laplace"].evidence_error < verdict["EP"].evidence_error
    assert verdict.recommended in ("EP", "variational") and "Laplace is not" in verdict.paragraph()
    section = verdict.report_section()
    assert section["rows"][-1][0] == "reference" and len(section["header"]) == len(section["rows"][0])
    assert str(verdict).startswith("Use EP") or str(verdict).startswith("Use variational")
    assert max(map(len, text_table(*verdict.table()))) < 80 and "in nats" in str(verdict)
    assert viz.verdict(verdict).get_xlabel().startswith("probability")
    with pytest.raises(KeyError, match="no rule named"):
        verdict["magic"]


@pytest.mark.slow
def test_all_agree_where_the_signal_is_weak():
    """Kuss 6.3.2: for small signal variance Laplace is as good as EP,
    and then the cheapest is recommended.
    """
    verdict = mc.assess(mc.Model(mc.GP(k.SE(2.6, 0.5)), Bernoulli()), X, Y, budget="5min")
    assert verdict.reference_ok and all(m.trusted for m in verdict.methods)
    assert verdict.recommended == "Laplace"
    assert abs(verdict["EP"].evidence_error) < 0.3 + 2 * verdict.log_evidence_error


@pytest.mark.slow
def test_without_a_good_reference_there_is_no_verdict():
    verdict = mc.assess(mc.Model(mc.GP(k.SE(2.6, 0.5)), Bernoulli()), X, Y, budget="5min")
    broken = dataclasses.replace(
        verdict, reference_ok=False, sure="The reference itself cannot be trusted.", predictions=None
    )
    assert broken.paragraph().startswith("No verdict") and "budget" in broken.paragraph()
    with pytest.raises(ValueError, match="no trusted reference"):
        viz.verdict(broken)


def test_the_budget_counts_compilation_and_says_what_was_left_out():
    """A budget that is over before anything has run: nothing is claimed,
    and everything that is missing is named.
    """
    verdict = mc.assess(mc.Model(mc.GP(k.SE(2.4, 0.7)), Bernoulli()), X, Y, budget="0.001s")
    assert not verdict.reference_ok and verdict.recommended is None and verdict.log_evidence is None
    assert "budget left no time for chains" in verdict.paragraph()
    assert not verdict.methods and "Laplace: the budget ended before it did" in verdict.left_out
    assert any("evidence" in text for text in verdict.left_out) and "left out: " in str(verdict)


def test_a_busy_machine_is_given_more_time_to_begin(monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: 30.0, process_time=lambda: 12.0)
    monkeypatch.setattr("mercer.learning.assessment.time", clock)
    assert assessment._Pace(10.0, 2.0).by_the_clock(6.0) == 12.0  # half of the processor was had
    assert assessment._Pace(10.0, -38.0).by_the_clock(6.0) == 6.0  # and more than one


@pytest.mark.parametrize("rule", [Laplace(), EP(), EP(schedule="sequential"), KL(), ScaleMixture()], ids=str)
def test_every_rule_stops_at_its_next_step(rule):
    likelihood = StudentT(0.5, dof=4.0) if isinstance(rule, ScaleMixture) else Bernoulli()
    with pytest.raises(DeadlineReached), within(Deadline.after(1e-9)):
        mc.Model(mc.GP(k.SE(2.4, 0.7)), likelihood).condition(X, Y, rule)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [8.0, 25.0, 100.0])
def test_the_budget_is_kept(monkeypatch, budget):
    """By a clock that work moves: a chunk of steps takes a second, the first one of a run four more, and to
    look at what draws say a twentieth of the budget.
    """
    clock = SimpleNamespace(now=0.0, chunks=0)
    time = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: clock.now)
    monkeypatch.setattr("mercer.progress.time", time)
    monkeypatch.setattr("mercer.learning.assessment.time", time)
    for room, first in ((chains, chains.CHUNK), (anneal, anneal.CHUNK)):

        def slow(done, total, text, tell=room.tell, first=first):
            clock.now += 1.0 + 4.0 * (done == first)
            clock.chunks += 1
            tell(done, total, text)

        monkeypatch.setattr(room, "tell", slow)
    view = assessment._view

    def looked(post, Xs, classes, reference=False):
        clock.now += 0.05 * budget * reference
        return view(post, Xs, classes, reference)

    monkeypatch.setattr(assessment, "_view", looked)
    verdict = mc.assess(mc.Model(mc.GP(k.SE(2.6, 0.5)), Bernoulli()), X, Y, budget=budget)
    assert verdict.seconds <= 1.2 * budget
    assert clock.chunks > 0.3 * budget - 5  # and the time was used
    assert verdict.reference_ok == (budget == 100.0) and verdict.left_out


def test_fitted_estimator_brings_its_data():
    clf = mc.GPClassifier(k.SE(mc.fixed(2.6), mc.fixed(0.5))).fit(X, np.where(Y > 0, "b", "a"))
    verdict = mc.assess(clf, budget=300)
    assert {m.name for m in verdict.methods} == {"Laplace", "EP", "variational"}
    with pytest.raises(ValueError, match="labels that the estimator was not fitted on"):
        mc.assess(clf, X, np.full(len(X), "c"))


def test_the_rule_of_several_classes_is_among_those_judged():
    rules = assessment._rules(mc.Model(mc.GP(k.SE()), MultinomialProbit(3)), left_out := [])
    assert set(rules) == {"Laplace", "EP"} and left_out == [
        "the variational bound: it is for one latent function"
    ]


def test_bad_input():
    with pytest.raises(ValueError, match="needs the data"):
        mc.assess(mc.Model(mc.GP(k.SE())))
    with pytest.raises(ValueError, match="budget must be a time"):
        mc.assess(mc.Model(mc.GP(k.SE())), X, Y, budget="soon")
