"""`assess`: how far may I trust an approximation on my own data? The question of Kuss' thesis, as a tool.

The deterministic rules are run beside a sampled reference (MCMC for marginals and predictions, annealed
importance sampling for the evidence), which is checked before it is believed. Everything is at the
hyperparameters the model has, within a time budget.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any

import numpy as np

from mercer.conditioned import AbstractConditioned
from mercer.gp import Model, as_model, prepare
from mercer.inference import EP, KL, Exact, Laplace
from mercer.inputs import as_inputs
from mercer.likelihoods import Gaussian
from mercer.progress import Deadline, DeadlineReached, Progress, shown, tell, within
from mercer.tables import text_table

LIMITS = dict(evidence=1.0, probability=0.05, prediction=0.25, mean=0.5, scale=0.5)
"""Largest errors a trusted rule makes: evidence in nats; class probabilities; other predictions in units of
their standard deviation; latent means in posterior standard deviations, and the relative error of those. All
but the first at all but one in twenty inputs."""
BEGINNING = 5.0  # seconds that chains or annealing may take to compile
JUDGING = 0.1  # of the budget, for predictions and errors after the reference


@dataclasses.dataclass(frozen=True)
class Method:
    """One rule beside the reference. Errors are None where the reference could not say;
    `trusted` is None without a reference.
    """

    name: str
    log_evidence: float | None
    seconds: float
    evidence_error: float | None = None  # rule minus reference, nats
    mean_error: float | None = None  # 95 % quantile over inputs, in posterior standard deviations
    scale_error: float | None = None  # 95 % quantile of |sd / reference - 1|
    prediction_error: float | None = None  # 95 % quantile over inputs
    trusted: bool | None = None
    why: str = ""
    predictions: Any = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `assess` found: `methods`, the reference and how good it is, the `recommended` rule,
    and what was left out.
    """

    methods: tuple[Method, ...]
    recommended: str | None
    sure: str
    reference: str
    reference_ok: bool
    log_evidence: float | None
    log_evidence_error: float | None
    monte_carlo_error: float
    left_out: tuple[str, ...]
    seconds: float
    classes: bool
    predictions: Any = None

    def __getitem__(self, name: str) -> Method:
        for method in self.methods:
            if method.name.lower() == name.lower():
                return method
        raise KeyError(f"no rule named {name!r} was run; there are {[m.name for m in self.methods]}.")

    def paragraph(self) -> str:
        """The answer in words."""
        if not self.reference_ok:
            return f"No verdict: {self.sure} Raise budget= and ask again."
        good = [m.name for m in self.methods if m.trusted]
        bad = [m for m in self.methods if m.trusted is False]
        parts = [
            f"Use {self.recommended}."
            if self.recommended
            else "None of the deterministic rules is close enough here: use inference.MCMC."
        ]
        if good:
            parts.append(
                f"{_listed(good)} {'is' if len(good) == 1 else 'are'} close to the sampled reference on "
                "these data."
            )
        parts += [f"{m.name} is not: {m.why}." for m in bad]
        return " ".join([*parts, self.sure])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, as text."""
        what = "probability" if self.classes else "prediction"
        header = ["method", "log evidence", "error", "mean", "sd", what, "trusted", "time"]
        rows = []
        for m in self.methods:
            rows.append(
                [
                    m.name,
                    _number(m.log_evidence, ".2f"),
                    _number(m.evidence_error, "+.2f"),
                    _number(m.mean_error, ".2f"),
                    _number(m.scale_error, ".0%"),
                    _number(m.prediction_error, ".3f"),
                    {True: "yes", False: "no", None: "?"}[m.trusted],
                    f"{m.seconds:.1f} s",
                ]
            )
        error = "" if self.log_evidence_error is None else f" +- {self.log_evidence_error:.2f}"
        known = "-" if self.log_evidence is None else f"{self.log_evidence:.2f}{error}"
        rows.append(["reference", known, *[""] * (len(header) - 2)])
        return header, rows

    def legend(self) -> str:
        """What the columns of the table are."""
        what = "of the probabilities" if self.classes else "of predictions, in their sd"
        return (
            "Errors beside the reference: of the log evidence, in nats; of the mean of f, in its sd; of the "
            f"sd of f, relative; {what}. All but the first are met at 95 % of the inputs."
        )

    def report_section(self) -> dict[str, Any]:
        """For a report: title, paragraphs, and a table."""
        header, rows = self.table()
        notes = [f"Reference: {self.reference}.", *(f"Left out: {what}." for what in self.left_out)]
        return dict(
            title="How far to trust the approximation",
            paragraphs=[self.paragraph(), self.legend(), *notes],
            header=header,
            rows=rows,
        )

    def __str__(self) -> str:
        lines = [
            self.paragraph(),
            "",
            *text_table(*self.table()),
            "",
            self.legend(),
            f"reference: {self.reference}",
            *(f"left out: {what}" for what in self.left_out),
        ]
        return "\n".join(lines)


def assess(
    model: Any,
    X: Any = None,
    y: Any = None,
    Xs: Any = None,
    *,
    budget: float | str = "60s",
    seed: int = 0,
    progress: Progress = None,
) -> Verdict:
    """Are Laplace, EP and the variational bound close to the truth for this model on these data?

    model: a Model with the hyperparameters to judge at, or a fitted estimator (X and y default to what it was
        fitted on)
    Xs: inputs (m, d) at which predictions are compared (default: the data and points between them)
    budget: how long this may take, as seconds, "60s" or "5min", compilation included: when it ends, what is
        running is stopped at its next step, and what did not fit is said in `left_out`. Chains and annealing
        are begun only where the 5 seconds are left that compiling them may take; the first rule always runs
    seed: of the chains

    >>> model = Model(GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli())
    >>> verdict = assess(model, X, y > 0, budget="10s")
    >>> print(verdict); verdict["EP"].prediction_error
    """
    began = time.perf_counter()
    deadline = Deadline.after(budget)
    model, X, y = _unpack(model, X, y)
    inputs, y = prepare(model, X, y)
    bound = model.bind(inputs)
    Xs = (
        _between(inputs.values, seed)
        if Xs is None
        else as_inputs(Xs, "Xs", inputs.names, model.reads_objects()).values
    )
    left_out: list[str] = []
    rules = _rules(bound, left_out)
    work = deadline.share(1.0 - JUDGING)
    found: dict[str, Any] = {}
    for name, rule in rules.items():
        start = time.perf_counter()
        try:
            with within(work) if found else contextlib.nullcontext():
                tell(0, None, name)
                post = bound.condition(inputs.values, y, rule)
            found[name] = (post, time.perf_counter() - start)
        except DeadlineReached:
            left_out.append(f"{name}: the budget ended before it did")
        except (ValueError, np.linalg.LinAlgError) as error:
            left_out.append(f"{name}: {error}")
    reference = _Reference(bound, inputs.values, y, seed, progress)
    reference.sample(_for_chains(work))
    reference.anneal(work)
    left_out += reference.left_out
    classes = bound.likelihood.categorical
    truth, noise = reference.views(Xs, classes)
    methods = tuple(
        _judge(name, post, took, Xs, classes, truth, noise, reference) for name, (post, took) in found.items()
    )
    trusted = [m for m in methods if m.trusted]  # in the order of their cost
    best = min((m.prediction_error or 0.0 for m in trusted), default=0.0)
    recommended = next((m.name for m in trusted if (m.prediction_error or 0.0) <= best + noise), None)
    evidence = reference.evidence
    return Verdict(
        methods,
        recommended,
        reference.confidence(noise),
        reference.described(),
        reference.ok,
        None if evidence is None else float(evidence),
        None if evidence is None else float(evidence.standard_error),
        noise,
        tuple(left_out),
        time.perf_counter() - began,
        classes,
        None if truth is None else truth[2],
    )


# ------------------------------------------------------------------------------------------------- the
# reference


class _Reference:
    """Draws of the latent function and an annealed estimate of the evidence, both checked."""

    def __init__(self, model: Model, X, y, seed: int, progress: Progress):
        self.model, self.X, self.y, self.seed, self.progress = model, X, y, seed, progress
        self.posterior: Any = None
        self.evidence: Any = None
        self.left_out: list[str] = []
        self.problems: list[str] = []

    def sample(self, deadline: Deadline) -> None:
        """Chains, four times as long while they say too little and the next ones would end before the
        deadline.
        """
        from mercer.inference import MCMC

        if deadline.left() < BEGINNING:
            self.left_out.append(f"chains: {BEGINNING:g} s to begin them were not left of the budget")
            self.problems.append("the budget left no time for chains")
            return
        draws = 250
        while True:
            rule = MCMC(draws=draws, tune=max(300, draws // 2), chains=4, seed=self.seed)
            try:
                deadline.check()
                with shown("sampling", self.progress), within(deadline) as watch:
                    found: Any = self.model.condition(self.X, self.y, rule)
            except DeadlineReached:
                break
            if watch.reached:
                if self.posterior is None:
                    self.posterior = found
                self.left_out.append(
                    f"chains of {draws} draws: the budget ended after {found.diagnostics.draws}"
                )
                break
            self.posterior = found
            enough = self._draws_ok() and found.diagnostics.least_ess > 1000
            if enough or draws >= 8000:
                break
            if 4.5 * watch.working > deadline.left():
                self.left_out.append(
                    f"chains of {4 * draws} draws, which would not have fitted into the budget"
                )
                break
            draws *= 4
        if self.posterior is None:
            self.problems.append("the budget ended before any draw was made")
        elif not self._draws_ok():
            found = self.posterior.diagnostics.problems()
            self.problems.append(
                "the chains had not mixed within the budget" + "".join(f"; {p}" for p in found)
            )

    def _draws_ok(self) -> bool:
        d = self.posterior.diagnostics
        return bool(d.trusted and d.least_ess > 100)

    def anneal(self, deadline: Deadline) -> None:
        """Annealing with four times the temperatures while the error is large and the next would end before
        the deadline.
        """
        from mercer import log_evidence
        from mercer.inference import AIS

        best: Any = None
        self.steps = steps = 500
        if deadline.left() < BEGINNING:
            self.left_out.append(
                f"the evidence: {BEGINNING:g} s to begin annealing were not left of the budget"
            )
            return
        while True:
            rule = AIS(steps=steps, runs=4, seed=self.seed)
            try:
                deadline.check()
                with shown("annealing", self.progress), within(deadline) as watch:
                    found = log_evidence(self.model, self.X, self.y, inference=rule)
            except DeadlineReached:
                self.left_out.append(
                    f"an estimate of the evidence with {steps} temperatures: the budget ended before it"
                )
                break
            best, self.steps = found, steps
            if watch.reached:
                self.left_out.append(
                    "the reverse runs that bracket the evidence: the budget ended before them"
                )
                break
            if best.standard_error < 0.25 or steps >= 16000:
                break
            if 4.5 * watch.working > deadline.left():
                break
            steps *= 4
        if best is not None and not best.standard_error < 1.0:
            self.left_out.append(
                f"the evidence: {self.steps} annealing steps left it uncertain by "
                f"{best.standard_error:.1f} nats, and the budget "
                "allowed no more"
            )
            best = None
        self.evidence = best

    @property
    def ok(self) -> bool:
        return not self.problems

    def views(self, Xs, classes: bool):
        """Latent mean and sd, predictions and their sd at Xs;
        and the Monte-Carlo error of the predictions.
        """
        if not self.ok:
            return None, np.nan
        post = self.posterior
        mean, std = post.mean_and_std(Xs, latent=True)
        error = 1.0 / np.sqrt(max(post.diagnostics.least_ess, 1.0))
        if classes:
            p = post.probability(Xs)
            return (mean, std, p, None), float(0.5 * error)
        m, s = post.mean_and_std(Xs)
        return (mean, std, m, s), float(error)

    def confidence(self, noise: float) -> str:
        if self.problems:
            return f"The reference itself cannot be trusted: {'; '.join(self.problems)}."
        d = self.posterior.diagnostics
        checks = (
            f"R-hat {d.worst_r_hat:.3f}, at least {d.least_ess:.0f} effective draws, "
            f"{d.divergences or 'no'} divergences"
        )
        text = f"The reference is good to about {noise:.3f} ({checks})"
        if self.evidence is None:
            return text + "; the evidence was not judged."
        return text + f", its evidence to {self.evidence.standard_error:.2f} nats."

    def described(self) -> str:
        if self.posterior is None:
            return "none"
        d = self.posterior.diagnostics
        text = (
            f"MCMC, R-hat {d.worst_r_hat:.3f}, effective draws {d.least_ess:.0f}, divergences {d.divergences}"
        )
        return text + (f"; AIS with {self.steps} steps and 4 runs" if self.evidence is not None else "")


# ------------------------------------------------------------------------------------------------- inside


def _for_chains(work: Deadline) -> Deadline:
    """Half of the time, or what chains need to begin and go on for as long."""
    return work.share(min(1.0, max(0.5, 2.0 * BEGINNING / max(work.left(), BEGINNING))))


def _rules(model: Model, left_out: list[str]) -> dict[str, Any]:
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian):
        return {"exact": Exact()}
    rules: dict[str, Any] = {}
    if likelihood.smooth:
        rules["Laplace"] = Laplace()
    else:
        left_out.append(f"Laplace: {type(likelihood).__name__} has a kink")
    if likelihood.latents == 1:
        rules |= {"EP": EP(), "variational": KL()}
    elif likelihood.default_rule == "ep":
        rules["EP"] = EP()
        left_out.append("the variational bound: it is for one latent function")
    else:
        left_out.append("EP and the variational bound: they are for one latent function")
    return rules


def _judge(name, post, took, Xs, classes, truth, noise, reference: _Reference) -> Method:
    if truth is None:
        return Method(name, float(post.log_evidence), took)
    mean, std = post.mean_and_std(Xs, latent=True)
    ref_mean, ref_std, ref_p, ref_s = truth
    mean_error = _most(np.abs(mean - ref_mean) / ref_std)
    scale_error = _most(np.abs(std / ref_std - 1.0))
    predictions = post.probability(Xs) if classes else post.mean(Xs)
    prediction_error = _most(np.abs(predictions - ref_p) if classes else np.abs(predictions - ref_p) / ref_s)
    evidence_error = None if reference.evidence is None else float(post.log_evidence - reference.evidence)
    why = []
    slack = 0.0 if reference.evidence is None else 2.0 * float(reference.evidence.standard_error)
    if evidence_error is not None and abs(evidence_error) > LIMITS["evidence"] + slack:
        side = "low" if evidence_error < 0 else "high"
        why.append(f"its evidence is {abs(evidence_error):.1f} nats too {side}")
    limit = LIMITS["probability" if classes else "prediction"]
    if prediction_error > limit + 2.0 * noise:
        why.append(
            f"its {'probabilities are' if classes else 'predictions are'} off by {prediction_error:.2f}"
            + ("" if classes else " standard deviations")
        )
    if mean_error > LIMITS["mean"] + 4.0 * noise:
        why.append(f"its latent means are off by {mean_error:.1f} standard deviations")
    if scale_error > LIMITS["scale"] + 4.0 * noise:
        why.append(f"its latent standard deviations are off by {scale_error:.0%}")
    if not post.status.converged:
        why.append("it did not converge")
    return Method(
        name,
        float(post.log_evidence),
        took,
        evidence_error,
        mean_error,
        scale_error,
        prediction_error,
        not why,
        " and ".join(why),
        predictions,
    )


def _most(errors: np.ndarray) -> float:
    return float(np.quantile(errors, 0.95))


def _unpack(model, X, y):
    if isinstance(model, AbstractConditioned):
        post = model.one_posterior()
        X = post.inputs.values if X is None else X
        y = post.y if y is None else _encoded(model, y)
        return post.model, X, y
    if X is None or y is None:
        raise ValueError("assess(model, X, y) needs the data, unless the model is a fitted estimator.")
    return as_model(model), X, y


def _encoded(estimator, y):
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return y
    codes = np.searchsorted(classes, np.asarray(y))
    if np.any(codes >= len(classes)) or np.any(classes[np.minimum(codes, len(classes) - 1)] != np.asarray(y)):
        raise ValueError("y has labels that the estimator was not fitted on.")
    return codes


def _between(X: np.ndarray, seed: int, most: int = 200) -> np.ndarray:
    """The data, and as many points half way between random pairs of them (for numbers;
    objects have nothing between).
    """
    rng = np.random.default_rng(seed)
    some = X if len(X) <= most else X[np.sort(rng.choice(len(X), most, replace=False))]
    if X.dtype == object:
        return some
    i, j = rng.integers(len(X), size=(2, len(some)))
    return np.concatenate([some, 0.5 * (X[i] + X[j])])


def _listed(names) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _number(value, spec: str) -> str:
    return "-" if value is None else format(value, spec)
