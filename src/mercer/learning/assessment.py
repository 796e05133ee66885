"""`assess`: how far may I trust an approximation on my own data? The question of Kuss' thesis, as a tool.

The deterministic rules are run beside a sampled reference (MCMC for marginals and predictions, annealed
importance sampling for the evidence), which is checked before it is believed. Everything is at the
hyperparameters the model has, within a time budget.
"""

from __future__ import annotations

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
BEGINNING = 6.0  # seconds of processor time that chains or annealing may take to compile
JUDGING = 0.1  # of the budget, for predictions of the reference while nobody knows how long they take


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
    budget: how long this may take, as seconds, "60s" or "5min", compilation included. When it ends, what is
        running is stopped at its next step (a factorisation, a few transitions of the chains, a few
        temperatures), and what did not fit is said in `left_out`. Compiling cannot be stopped: chains and
        annealing are begun only where the 6 seconds of processor time that it may take are left, at the
        share of the processor that this process has had so far
    seed: of the chains

    >>> model = Model(GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli())
    >>> verdict = assess(model, X, y > 0, budget="10s")
    >>> print(verdict); verdict["EP"].prediction_error
    """
    pace = _Pace.now()
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
    classes = bound.likelihood.categorical
    found: dict[str, _Ruled] = {}
    for name, rule in _rules(bound, left_out).items():
        try:
            with within(deadline):
                tell(0, None, name)
                start = time.perf_counter()
                post = bound.condition(inputs.values, y, rule)
                took = time.perf_counter() - start
                found[name] = _Ruled(post, took, _view(post, Xs, classes))
        except DeadlineReached:
            left_out.append(f"{name}: the budget ended before it did")
        except (ValueError, np.linalg.LinAlgError) as error:
            left_out.append(f"{name}: {error}")
    reference = _Reference(bound, inputs.values, y, Xs, seed, progress, deadline, pace)
    reference.sample()
    reference.anneal()
    left_out += reference.left_out
    truth, noise = reference.view, reference.monte_carlo_error()
    methods = tuple(_judge(name, ruled, classes, truth, noise, reference) for name, ruled in found.items())
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
        pace.seconds,
        classes,
        None if truth is None else truth.predictions,
    )


# ------------------------------------------------------------------------------------------------- the
# reference


@dataclasses.dataclass(frozen=True)
class _Pace:
    """When something began, by the clock and by the processor time of this process."""

    clock: float
    processor: float

    @classmethod
    def now(cls) -> _Pace:
        return cls(time.perf_counter(), time.process_time())

    @property
    def seconds(self) -> float:
        """Since then, by the clock."""
        return time.perf_counter() - self.clock

    def by_the_clock(self, seconds: float) -> float:
        """How long so many seconds of processor time take, on a machine that goes on being as busy."""
        used = time.process_time() - self.processor
        return seconds * max(1.0, self.seconds / max(used, 1e-9))


@dataclasses.dataclass(frozen=True)
class _View:
    """What a posterior says at Xs: mean and std of f, and its predictions; of a reference with their std. Of
    classes these are probabilities, without a std.
    """

    mean: np.ndarray
    std: np.ndarray
    predictions: np.ndarray
    spread: np.ndarray | None


def _view(post: Any, Xs: Any, classes: bool, reference: bool = False) -> _View:
    mean, std = post.mean_and_std(Xs, latent=True)
    if classes:
        return _View(mean, std, post.probability(Xs), None)
    return _View(mean, std, *(post.mean_and_std(Xs) if reference else (post.mean(Xs), None)))


@dataclasses.dataclass(frozen=True)
class _Ruled:
    """The posterior of a rule, how many seconds it took, and what it says."""

    posterior: Any
    seconds: float
    view: _View


class _Reference:
    """Draws of the latent function and an annealed estimate of the evidence, both checked."""

    def __init__(
        self, model: Model, X, y, Xs, seed: int, progress: Progress, deadline: Deadline, pace: _Pace
    ):
        self.model, self.X, self.y, self.Xs, self.seed, self.progress = model, X, y, Xs, seed, progress
        self.deadline, self.pace = deadline, pace
        self.judging = JUDGING * deadline.left()  # seconds, for the view
        self.posterior: Any = None
        self.view: _View | None = None
        self.evidence: Any = None
        self.left_out: list[str] = []
        self.problems: list[str] = []

    @property
    def work(self) -> Deadline:
        """When chains must end, so that the deadline is kept."""
        return Deadline(self.deadline.end - self.judging)

    @property
    def may_begin(self) -> bool:
        """Whether there is time for what must be compiled."""
        return self.work.left() >= self.pace.by_the_clock(BEGINNING)

    def sample(self) -> None:
        """Chains, four times as long while they say too little and the next ones would end in time: in half
        of the time, or what they need to begin and go on for as long.
        """
        if not self.may_begin:
            needed = self.pace.by_the_clock(BEGINNING)
            self.left_out.append(f"chains: {needed:.0f} s to begin them were not left of the budget")
            self.problems.append("the budget left no time for chains")
            return
        needed = 2.0 * self.pace.by_the_clock(BEGINNING)
        ends = self.work.share(min(1.0, max(0.5, needed / self.work.left()))).end
        draws = 250
        while self._lengthened(draws, Deadline(min(ends, self.work.end))):
            draws *= 4
        if self.posterior is None:
            self.problems.append("the budget ended before any draw was made")
        elif not self._draws_ok():
            found = self.posterior.diagnostics.problems()
            self.problems.append(
                "the chains had not mixed within the budget" + "".join(f"; {p}" for p in found)
            )
        if self.problems:
            self.view = None

    def _lengthened(self, draws: int, deadline: Deadline) -> bool:
        """Run chains of so many draws; whether longer ones are needed and would end in time."""
        from mercer.inference import MCMC

        rule = MCMC(draws=draws, tune=max(300, draws // 2), chains=4, seed=self.seed)
        try:
            deadline.check()
            with shown("sampling", self.progress), within(deadline) as watch:
                found: Any = self.model.condition(self.X, self.y, rule)
        except DeadlineReached:
            return False
        working = watch.working
        if watch.reached:
            self.left_out.append(f"chains of {draws} draws: the budget ended after {found.diagnostics.draws}")
            if self.posterior is None:
                self._take(found)
            return False
        self._take(found)
        if draws >= 8000 or (self._draws_ok() and found.diagnostics.least_ess > 1000):
            return False
        if 4.5 * working > min(deadline.end, self.work.end) - time.perf_counter():
            self.left_out.append(f"chains of {4 * draws} draws, which would not have fitted into the budget")
            return False
        return True

    def _take(self, posterior: Any) -> None:
        """Look at what the draws say, at once: so the time that it takes is known for later."""
        began = time.perf_counter()
        self.posterior = posterior
        self.view = _view(posterior, self.Xs, self.model.likelihood.categorical, reference=True)
        self.judging = 1.5 * (time.perf_counter() - began)

    def _draws_ok(self) -> bool:
        d = self.posterior.diagnostics
        return bool(d.trusted and d.least_ess > 100)

    def monte_carlo_error(self) -> float:
        """Of the predictions: probabilities, or others in units of their std."""
        if self.view is None:
            return float("nan")
        error = 1.0 / np.sqrt(max(self.posterior.diagnostics.least_ess, 1.0))
        return float(0.5 * error if self.model.likelihood.categorical else error)

    def anneal(self) -> None:
        """Annealing with four times the temperatures while the error is large and the next would end in time:
        nothing is left to do after it.
        """
        from mercer.gp import log_evidence
        from mercer.inference import AIS

        best: Any = None
        self.steps = steps = 500
        deadline = self.deadline
        needed = self.pace.by_the_clock(BEGINNING)
        if deadline.left() < needed:
            self.left_out.append(
                f"the evidence: {needed:.0f} s to begin annealing were not left of the budget"
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


def _judge(
    name: str, ruled: _Ruled, classes: bool, truth: _View | None, noise: float, reference: _Reference
) -> Method:
    post, took, view = ruled.posterior, ruled.seconds, ruled.view
    if truth is None:
        return Method(name, float(post.log_evidence), took, predictions=view.predictions)
    mean_error = _most(np.abs(view.mean - truth.mean) / truth.std)
    scale_error = _most(np.abs(view.std / truth.std - 1.0))
    predictions = view.predictions
    unit = 1.0 if truth.spread is None else truth.spread
    prediction_error = _most(np.abs(predictions - truth.predictions) / unit)
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
