"""Gaussian-process classification as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr
from sklearn.base import ClassifierMixin

from mercer.conditioned import ClassFunction, Classified
from mercer.decide import decide
from mercer.distributed import Parallel, team
from mercer.estimators import defaults, roughness
from mercer.estimators.base import INTEGRATED, column_lines, evidence_of, fitted, read_kernel
from mercer.estimators.classification.labels import (
    TINY,
    combine,
    contest_data,
    contest_rows,
    contests,
    encode,
    loss_matrix,
    sharpness,
)
from mercer.estimators.explained import AbstractExplained
from mercer.estimators.many import checkpoint_of
from mercer.estimators.shared_work import AbstractShared
from mercer.gp import GP, Model
from mercer.inference import by_name
from mercer.inference.protocol import AbstractInference
from mercer.inputs import InputError, Inputs, is_chunked
from mercer.kernels import AbstractKernel
from mercer.learning import Fit
from mercer.learning.labels import ProbitMap
from mercer.learning.objectives import Objective
from mercer.likelihoods import Bernoulli, Gaussian, MultinomialProbit, Softmax
from mercer.means import AbstractMean, Constant, as_mean
from mercer.metrics.labels import columns_of
from mercer.params import Param, param, parameters
from mercer.posteriors import AbstractPosterior, LeaveOneOut
from mercer.progress import Progress
from mercer.relatives import platt
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.solvers import by_name as solver_by_name
from mercer.solvers.protocol import AbstractSolver

if TYPE_CHECKING:
    from mercer.estimators.classification.certificate import Certificate
    from mercer.explain import AbstractFitted, Attributions

MOST_LATENTS = 3000  # rows times classes that one model couples by default
LABEL_REGRESSION = "label-regression"
LOO_PROBIT = "loo-probit"
JOINT = ("probit", "softmax")  # one model with a latent function for each class
SCHEMES = (*JOINT, "one-vs-rest", "one-vs-one")
SUITS = {"EP": "probit", "Laplace": "softmax"}  # what rules do with more than two classes


class GPClassifier(ClassifierMixin, AbstractShared, AbstractExplained, AbstractReported):
    """Gaussian-process classification of two or more classes, with learned hyperparameters.

    Labels may be text, numbers or booleans. Without a kernel, an ARD Matern 5/2 is learned under priors
    scaled to the columns: of d length-scales, each in units of its column's standard deviation, the most
    probable value is 2 sqrt(d), one unit of the logarithm wide; the variance of the latent function, which
    the evidence alone lets grow without bound where the classes can be separated, has a log-normal prior
    whose most probable value is 4, one and a half units of its logarithm wide. With a kernel, its
    numbers are in your units and it is learned by the evidence alone unless it carries priors;
    hyperparameters given as `mercer.fixed(...)` are not learned.

    kernel: kernel, str, sequence of these, or None. A kernel such as `kernels.SE(1.0)`, its formula as text,
        or None for the default. "auto" chooses roughness and a linear part by the evidence, as in
        `GPRegressor`: of each problem of two classes by itself, where there are several. Several classes
        share one kernel under "probit" and "softmax", and start from it under the other schemes; a sequence
        gives each latent function its own.
    mean: number, "learned", `mercer.param`, mean, callable or None. Prior mean of the latent function.
        "learned" is `param(0.0)`, a constant bias, so that far from the data predictions need not tend to
        1/2.
    inference: str, instance or None. "ep", "laplace", "variational", "local-bound" (logit link), or an
        instance from `mercer.inference`; None is EP, and Laplace for softmax. "mcmc" samples
        the hyperparameters too, "ccd" and "grid" integrate over a few settings around the best.
        "label-regression" is exact regression on labels +-1 with Gaussian noise: the class is the sign, and
        its probability that of y > 0, which is quick but rough.
    link: "probit" or "logit". How a latent function becomes a probability of two classes.
    multi_class: "probit", "softmax", "one-vs-rest", "one-vs-one" or None. More than two classes: one model
        with a latent function for each class, "probit" (the class whose function, noise added, is the
        largest; by EP) or "softmax" (by Laplace's method, whose probabilities are underconfident); or
        problems of two classes whose probabilities p are combined: of one against the rest p / (1 - p)^s,
        normalised, s between 0 and 1 chosen by rows left out. None is "probit", but "softmax" for
        Laplace's method, and "one-vs-rest" for rules of two classes, for solvers that cannot couple
        functions (`offers`), and where rows times classes exceed 3,000.
    calibrate: bool. With "label-regression": probabilities by Platt scaling of the leave-one-out means.
    objective: str. "evidence" (with priors: MAP); "loo", the log probability of labels left out, by cavities
        (5.5.3), or "k-fold", by refits: a check of the evidence where the model may be wrong, slower, as
        derivatives are differences. Label regression also takes the others of `GPRegressor`, and
        "loo-probit" (GPML 6.5.1): hyperparameters, and a map from predictions of the numbers +-1 to
        probabilities, for which left-out labels are the most probable.
    solver, restarts, random_state, max_evaluations, learn, progress, memory, checkpoint, missing, parallel:
        as in `GPRegressor`, whose docstring also says which columns of a table are taken and how; several
        problems of two classes have a checkpoint each

    classes_: the sorted labels (C,)
    model_, posterior_, fit_: the learned `Model`, its posterior, and the `Fit` with status and history;
        lists of them for "one-vs-rest" (a class each) and "one-vs-one" (pairs, see `contests_`)
    contests_: for those, the pairs of labels (first, second or None for all the rest); the latent function
        speaks for the first
    kernel_: the learned kernel; a list for several latent functions with kernels of their own
    log_marginal_likelihood_: log evidence without priors; summed over problems of two classes where there are
        several, and then not comparable with that of one model. For label regression it is that of the
        numbers +-1
    columns_: what each column of X is and which columns of numbers it became (`mercer.columns.Columns`)
    n_features_in_, feature_names_in_: as in scikit-learn

    >>> model = GPClassifier().fit(df[["a", "b"]], df["species"])
    >>> model.predict(new[["a", "b"]]), model.predict_proba(new[["a", "b"]])
    >>> model.predict(new[["a", "b"]], loss={"ill": 20}, reject=0.3)  # to miss "ill" costs 20, refusing 0.3
    >>> GPClassifier(kernels.Spectrum(3)).fit(["acgt", "ttga", "acga"], ["+", "-", "+"])
    """

    numeric_targets: ClassVar[bool] = False

    def __init__(
        self,
        kernel: str | AbstractKernel | Sequence[str | AbstractKernel] | None = None,
        mean: str | float | Param | AbstractMean | Callable[..., Any] | None = 0,
        inference: str | AbstractInference | None = None,
        link: Literal["probit", "logit"] = "probit",
        multi_class: Literal["probit", "softmax", "one-vs-rest", "one-vs-one"] | None = None,
        calibrate: bool = False,
        objective: str | Objective = "evidence",
        solver: str | AbstractSolver | None = None,
        restarts: int = 0,
        random_state: int | np.random.RandomState | None = 0,
        max_evaluations: int = 500,
        progress: Progress = None,
        memory: str | float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        missing: Literal["indicator", "error"] = "indicator",
        learn: bool = True,
        parallel: Parallel = None,
    ):
        self.kernel = kernel
        self.mean = mean
        self.inference = inference
        self.link = link
        self.multi_class = multi_class
        self.calibrate = calibrate
        self.objective = objective
        self.solver = solver
        self.restarts = restarts
        self.random_state = random_state
        self.max_evaluations = max_evaluations
        self.progress = progress
        self.memory = memory
        self.checkpoint = checkpoint
        self.missing = missing
        self.learn = learn
        self.parallel = parallel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = self.kernel is None or roughness.asked(self.kernel)
        tags.input_tags.allow_nan = own and self.missing != "error"
        return tags

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> GPClassifier:
        """Learn from labels y (n,) at X (n, d): an array, a data frame with names,
        or objects that the kernel reads; or a source of chunks, with its own y, or a Dask frame or array,
        with y cut at the same rows (solvers VFE, FITC and ProjectedProcess, FITC unless told; several classes
        by multi_class="one-vs-rest").
        """
        self._check_settings()
        if is_chunked(X):
            from mercer.estimators.classification.chunked import fit_chunks

            return self._take(fit_chunks(self, X, y))
        kernels = self._kernels()
        inputs, codes = self._training_data(X, y, kernels)
        self._data = (inputs, codes)
        self._check_classes()
        common: dict[str, Any] = dict(
            inference=self._rule,
            objective=self.objective,
            restarts=self.restarts,
            seed=self._seed(),
            max_evaluations=self.max_evaluations,
            progress=self.progress,
            parallel=self.parallel,
        )
        problems = self._problems(inputs, codes)
        models = self._models(kernels, problems)
        with team(self.parallel):
            fits = [
                self._learn(model, *problem, checkpoint=checkpoint_of(self.checkpoint, i), **common)
                for i, (model, problem) in enumerate(zip(models, problems, strict=True))
            ]
            if roughness.asked(self.kernel) and self.learn:
                fits = [
                    self._choose_kernel(*each, common, i)
                    for i, each in enumerate(zip(fits, models, problems, strict=True))
                ]
        return self._take(fits)

    def _kernels(self) -> tuple[AbstractKernel | None, ...]:
        if roughness.asked(self.kernel):
            return (None,)
        several = self.kernel if isinstance(self.kernel, (list, tuple)) else (self.kernel,)
        return tuple(map(read_kernel, several))

    def _choose_kernel(
        self, plain: Fit, model: Model, problem: tuple[Inputs, np.ndarray], common: dict[str, Any], i: int
    ) -> Fit:
        """The fit of one problem with the kernel of kernel="auto"; `model` is what `plain` started from."""
        (inputs, y), latent = problem, self.inference != LABEL_REGRESSION
        scale = float(np.sqrt(model.gp.kernel.diag(inputs.values[:1])[0]))  # where the variance starts
        default = roughness.Default(inputs.values, scale, self.columns_, latent)
        settings = common | {"starts": "given", "restarts": 0}

        def learn(better: Model) -> Fit:
            return self._learn(
                better, inputs, y, checkpoint=checkpoint_of(self.checkpoint, f"kernel {i}"), **settings
            )

        return roughness.chosen(plain, default, inputs, y, self._seed(), learn, self._rule)

    def _check_settings(self) -> None:
        if self.multi_class is not None and self.multi_class not in SCHEMES:
            raise ValueError(
                f"multi_class must be one of {', '.join(map(repr, SCHEMES))} or None, got "
                f"{self.multi_class!r}."
            )
        if self.link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit', got {self.link!r}.")
        if self.calibrate and self.inference != LABEL_REGRESSION:
            raise ValueError(
                f"calibrate=True goes with inference={LABEL_REGRESSION!r}; the other rules give "
                "probabilities themselves."
            )
        if self._mapped and (self.inference != LABEL_REGRESSION or self.calibrate):
            raise ValueError(
                f"objective={LOO_PROBIT!r} goes with inference={LABEL_REGRESSION!r}, and brings its own "
                "probabilities: leave out calibrate."
            )
        if roughness.asked(self.kernel):
            roughness.check(self.objective, self.inference)
        if isinstance(self.inference, str) and self.inference in INTEGRATED:
            return
        try:
            by_name(self._rule, Bernoulli())
        except ValueError as error:
            raise ValueError(
                f"{error} GPClassifier also takes {LABEL_REGRESSION!r}, 'ccd' and 'grid'."
            ) from None

    def _check_classes(self) -> None:
        if not self._joint or self.inference is None or not isinstance(self.inference, str):
            return
        rule = "ep" if self._scheme == "probit" else "laplace"
        if self.inference not in (rule, "mcmc", *INTEGRATED):
            raise ValueError(
                f"inference={self.inference!r} does not go with multi_class={self._scheme!r}, and y has "
                f"{len(self.classes_)} classes: use inference={rule!r}, or leave multi_class to be chosen by "
                "the rule (None)."
            )

    def _models(self, kernels: tuple, problems: list[tuple[Inputs, np.ndarray]]) -> list[Model]:
        """The models before learning, one for each problem."""
        latents = len(self.classes_) if self._joint else len(problems)
        if isinstance(self.kernel, (list, tuple)) and len(kernels) != latents:
            raise ValueError(
                f"{len(kernels)} kernels were given, but with {len(self.classes_)} classes and "
                f"multi_class={self.multi_class!r} "
                f"there {'are' if latents > 1 else 'is'} {latents} latent function{'s' * (latents > 1)}: "
                "give as many, or one."
            )
        if not self._joint:
            kernels = kernels * len(problems) if len(kernels) == 1 else kernels
            return [
                self._binary_model(kernel, *problem)
                for kernel, problem in zip(kernels, problems, strict=True)
            ]
        likelihood = (Softmax if self._scheme == "softmax" else MultinomialProbit)(len(self.classes_))
        inputs, codes = problems[0]
        scale = float(np.sqrt(np.mean(np.var(likelihood.guess(codes), 0))))
        gps = tuple(GP(kernel or self._default(inputs, scale), self._mean()) for kernel in kernels)
        if len(gps) == 1 and any(p.free for p in parameters(gps[0].mean)):
            raise ValueError(
                "a mean that all classes share changes nothing, so it cannot be learned: "
                "give one kernel for each "
                "class (kernel=[...]), and each gets a mean of its own, or use multi_class='one-vs-rest'."
            )
        return [Model(gps[0] if len(gps) == 1 else gps, likelihood)]

    def _binary_model(self, kernel: AbstractKernel | None, inputs: Inputs, y: np.ndarray) -> Model:
        scale = defaults.target_scale(y)
        if self.inference == LABEL_REGRESSION:
            noise = defaults.default_noise(scale) if kernel is None else defaults.NOISE_SHARE * scale**2
            kernel = kernel or defaults.default_kernel(inputs.values, scale, columns=self.columns_)
            return Model(GP(kernel, self._mean()), Gaussian(noise))
        return Model(GP(kernel or self._default(inputs, scale), self._mean()), Bernoulli(self.link))

    def _default(self, inputs: Inputs, scale: float) -> AbstractKernel:
        return defaults.default_kernel(inputs.values, scale, True, self.columns_)

    def _mean(self) -> AbstractMean:
        if isinstance(self.mean, str):
            if self.mean != "learned":
                raise ValueError(
                    f"mean must be a number, 'learned', a mean function or None, got {self.mean!r}."
                )
            return Constant(param(0.0))
        if isinstance(self.mean, Param):
            return Constant(self.mean)
        return as_mean(None if isinstance(self.mean, int | float) and self.mean == 0 else self.mean)

    def _take(self, fits: list[Fit]) -> GPClassifier:
        one = len(fits) == 1
        self.fit_ = fits[0] if one else fits
        self.posterior_ = fits[0].posterior if one else [f.posterior for f in fits]
        self.model_ = fits[0].model if one else [f.model for f in fits]
        kernels = [kernel for f in fits for kernel in f.model.kernels]
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        evidences = [e for f in fits if (e := evidence_of(f.posterior)) is not None]
        self.log_marginal_likelihood_ = float(sum(evidences)) if len(evidences) == len(fits) else None
        if not one:
            names: list[Any] = self.classes_.tolist()
            self.contests_ = [(names[a], None if b is None else names[b]) for a, b in self._contests]
        elif hasattr(self, "contests_"):
            del self.contests_
        self._logistic: list[tuple[float, float]] | None = None
        self._probits: list[ProbitMap] | None = None
        self._sharp: float | None = None
        return self

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        loss: ArrayLike | Mapping[Any, float] | None = None,
        reject: float | tuple[str, float] | None = None,
        reject_label: Any = None,
    ) -> np.ndarray:
        """The label (m,) of least expected loss: the likeliest, where no loss is given (GPML 3.1.1).

        loss: (C, C), the cost of predicting the class of the column when that of the row is true, in the
        order of `classes_`; or a dict that says for some labels what it costs to miss them. reject: the cost
        of refusing to decide, or ("threshold", t) to refuse where no class has at least the probability t, or
        ("gap", t); see `mercer.decide.decide`. Rows that are refused hold `reject_label`; unless it is of the
        labels' own type the array is of objects. Of a Dask frame or array labels, like probabilities, are
        one, computed when they are asked for.
        """
        if is_chunked(X):
            from mercer.estimators.chunked import lazily

            plain = reject is None and self.classes_.dtype.kind != "U"
            dtype = self.classes_.dtype if plain else object
            settings = dict(loss=loss, reject=reject, reject_label=reject_label)
            return lazily(self, X, "predict", ("class",), dtype, **settings)
        chosen = decide(self.predict_proba(X), loss_matrix(loss, self.classes_), reject)
        if reject is None:
            return self.classes_[chosen.choice]
        labels = self.classes_[chosen.choice].astype(object)
        labels[chosen.refused] = reject_label
        same = np.asarray(reject_label).dtype.kind == self.classes_.dtype.kind != "O"
        return np.array(labels.tolist()) if same else labels

    def predict_columns(self, X: Any, level: float = 0.95, latent: bool = False) -> dict[str, np.ndarray]:
        """The likeliest class and the probability of each: "class", and "p_..." of every label, (m,). Classes
        have no intervals: `level` is not looked at.

        >>> model.predict_columns(Xs)["p_ill"]
        """
        if latent:
            raise ValueError("latent=True (--latent) is for models of numeric targets, not for classes.")
        p = self.predict_proba(X)
        return {"class": self.classes_[p.argmax(1)]} | {
            f"p_{label}": p[:, c] for c, label in enumerate(self.classes_.tolist())
        }

    def predict_proba(self, X: Any, how: str = "average") -> np.ndarray:
        """Probabilities (m, C) of the `classes_`: averaged over the latent functions,
        or with how="map" at their mean.

        Far from all training rows, further than the length-scales reach, they tend to 1/C: the model then
        knows nothing, not even how frequent a class is. With `mean="learned"` (two classes, and one-vs-rest)
        they tend to shares that are learned with the rest: near the frequencies in the training data where X
        says little. `posterior_.std(X, latent=True)` says how far out a row is.
        """
        if is_chunked(X):
            from mercer.estimators.chunked import lazily

            names = tuple(f"p_{label}" for label in self.classes_.tolist())
            return lazily(self, X, "predict_proba", names, how=how)
        with self._telling():
            return self._probabilities(self._inputs(X), how)

    def _probabilities(self, X: np.ndarray, how: str) -> np.ndarray:
        if self.inference == LABEL_REGRESSION:
            return self._from_labels([self._moments(p, X) for p in self._posteriors], how)
        if len(self._posteriors) == 1:
            return self._posteriors[0].class_probabilities(X, how)
        return self._combined(np.column_stack([p.probability(X, how) for p in self._posteriors]))

    def _from_labels(self, moments: list[tuple[np.ndarray, np.ndarray]], how: str) -> np.ndarray:
        """Probabilities (m, C) of label regression, from mean and variance of f in each contest."""
        if len(self.classes_) == 2:
            return np.column_stack([self._wins(0, *moments[0], how, sign) for sign in (-1.0, 1.0)])
        return self._combined(np.column_stack([self._wins(i, *m, how) for i, m in enumerate(moments)]))

    def _combined(self, wins: np.ndarray) -> np.ndarray:
        """Probabilities (m, C) from those of winning each contest (m, contests)."""
        return combine(wins, len(self.classes_), self._scheme, self._sharpness)

    def decision_function(self, X: Any) -> np.ndarray:
        """Two classes: log odds (m,) of the second. More: log probabilities (m, C)."""
        log_p = np.log(np.maximum(self.predict_proba(X), TINY))
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent functions: (m,) each for two classes, speaking for the second; else
        (m, latents).

        Softmax and one-vs-rest have one for each class, one-vs-one one for each of `contests_`. Covariances
        between the functions of softmax are in `posterior_.latent_moments(X)`.
        """
        X = self._inputs(X)
        moments = [self._moments(p, X) for p in self._posteriors]
        if self._joint:
            return moments[0][0], np.einsum("mcc->mc", moments[0][1])
        if len(moments) == 1:
            return moments[0]
        return np.stack([m for m, _ in moments], 1), np.stack([v for _, v in moments], 1)

    # -- the fit seen from the data --------------------------------------------------------------------------

    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training data, without fitting again: `probability` (n, C) of the
        `classes_`, `log_density` (n,) that of the label observed.

        They are very accurate for EP, a good guide for Laplace; hyperparameters are those learned from all
        the data. `mean` is the probability of the second of two classes, or all of them.

        >>> wrong = model.classes_[model.loo().probability.argmax(1)] != labels
        """
        fitted(self)
        p, codes = self._loo_probabilities(), self._data[1].astype(int)
        mean = p[:, 1] if p.shape[1] == 2 else p
        log_density = np.log(np.maximum(p[np.arange(len(codes)), codes], TINY))
        return LeaveOneOut(mean, mean * (1.0 - mean), log_density, p)

    def _loo_probabilities(self) -> np.ndarray:
        if self._joint:
            p = self._posteriors[0].loo().mean
            return p / p.sum(1, keepdims=True)
        wins = self._loo_wins()
        return np.column_stack([1.0 - wins, wins]) if len(self.classes_) == 2 else self._combined(wins)

    def _loo_wins(self) -> np.ndarray:
        """The probability (n, contests) that the first class wins each contest, for rows left out of it."""
        inputs, codes = self._data
        columns = []
        for i, (posterior, contest) in enumerate(zip(self._posteriors, self._contests, strict=True)):
            left, rows = posterior.loo(), contest_rows(codes, contest)
            p = np.empty(len(codes))
            if self.inference == LABEL_REGRESSION:
                noise = float(posterior.model.likelihood.noise_variance)
                p[rows] = self._wins(i, left.mean, left.variance - noise)
            else:
                p[rows] = left.mean
            if not rows.all():
                p[~rows] = self._wins(i, *self._moments(posterior, inputs.values[~rows]))
            columns.append(p)
        return np.column_stack(columns)

    @property
    def _sharpness(self) -> float:
        """How contests of one against the rest become probabilities, found when it is first needed."""
        if self._sharp is None:
            asked = self._scheme == "one-vs-rest" and len(self.classes_) > 2 and self._left_out_at_hand
            self._sharp = sharpness(self._loo_wins(), self._data[1].astype(int)) if asked else 0.0
        return self._sharp

    def classified(self, X: Any = None, y: Any = None) -> Classified:
        """Labels, codes and probabilities of rows X with labels y, or of the training rows left out one at a
        time: what pictures of reliability and confusion are of.
        """
        fitted(self)
        labels = tuple(map(str, self.classes_.tolist()))
        if X is None:
            codes, p = self._data[1].astype(int), np.asarray(self.loo().probability)
            return Classified(labels, codes, p, "left out one at a time")
        return Classified(
            labels, columns_of(np.asarray(y), self.classes_), self.predict_proba(X), "predicted"
        )

    def class_function(self) -> ClassFunction:
        """Probabilities of the classes as a function of the inputs."""
        fitted(self)
        inputs, codes = self._data
        labels = tuple(map(str, self.classes_.tolist()))
        return ClassFunction(inputs, codes.astype(int), labels, lambda X: self._probabilities(X, "average"))

    def certificate(self, X: Any, y: Any, delta: float = 0.01) -> Certificate:
        """A bound on the share of new rows that are classified wrongly, which holds with probability
        1 - delta whatever the data are like, as long as rows are independent (PAC-Bayes, GPML 7.4).

        X, y: training data, of two classes. Hyperparameters must not know the rows that the bound counts:
        unless they are given (a kernel and learn=False), half of the rows, drawn by `random_state`, serve to
        learn them, and the other half to condition on. The bound is about the classifier of this second half,
        `.classifier` of the answer, not about one that was fitted to all rows; the answer says what it rests
        on, and whether it is worth anything. It does not depend on `fit`.

        >>> print(GPClassifier().certificate(X, y, delta=0.01))
        """
        from mercer.estimators.classification.certificate import certified

        return certified(self, X, y, delta)

    def summary(self) -> str:
        """What was found, as text: how well rows are predicted by the others, the classes, which columns
        matter; then the hyperparameters, and how far to trust the optimiser.
        """
        from mercer.estimators.findings import opened

        fitted(self)
        opening = [
            *self._opening(),
            *self._importance_lines(),
            *column_lines(self.columns_),
            *self._note_lines(),
        ]
        lines = []
        for i, found in enumerate(self._fits):
            if len(self._fits) > 1:
                first, second = self.contests_[i]
                lines.append(f"\n{first} against {'the rest' if second is None else second}")
            lines.append(found.summary())
        return opened(opening, "\n".join(lines))

    def _opening(self) -> list[str]:
        from mercer.estimators.findings import classes_left_out

        codes, classes = self._data[1].astype(int), self.classes_.tolist()
        each = zip(classes, np.bincount(codes, minlength=len(classes)), strict=True)
        counts = "classes: " + ", ".join(f"{c} ({n})" for c, n in each)
        if not self._left_out_at_hand:
            return [counts]
        return [classes_left_out(codes, self._loo_probabilities(), classes), counts]

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _joint(self) -> bool:
        """One model with a latent function for each class."""
        return len(self.classes_) > 2 and self._scheme in JOINT

    @property
    def _scheme(self) -> str:
        return self._suited(len(self._data[1]) * len(self.classes_))

    def _suited(self, latents: int) -> str:
        """How more than two classes are told apart: as asked for, or as suits the rule, the solver and the
        number of latent values, rows times classes.
        """
        if self.multi_class is not None:
            return self.multi_class
        if "blocks" not in solver_by_name(self.solver).offers or self.inference == LABEL_REGRESSION:
            return "one-vs-rest"
        if self.inference is None or (isinstance(self.inference, str) and self.inference in INTEGRATED):
            return "probit" if latents <= MOST_LATENTS else "one-vs-rest"
        rule = by_name(self._rule, Bernoulli())
        return SUITS.get(rule.name, "one-vs-rest") if rule.learns != "draws" else "probit"

    @property
    def _contests(self) -> list[tuple[int, int | None]]:
        C = len(self.classes_)
        return [(1, 0)] if C == 2 else contests(C, self._scheme)

    @property
    def _posteriors(self) -> list[AbstractPosterior]:
        return [f.posterior for f in self._fits]

    @staticmethod
    def _moments(posterior: AbstractPosterior, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = posterior.latent_moments(X)
        assert variance is not None
        return mean, variance

    def _wins(
        self, i: int, mean: np.ndarray, variance: np.ndarray, how: str = "average", sign: float = 1.0
    ) -> np.ndarray:
        """The probability (m,) that the first class wins contest i (sign -1: loses);
        its latent function is N(mean, variance).
        """
        likelihood: Any = self._fits[i].model.likelihood
        if self.inference != LABEL_REGRESSION:
            return likelihood.probability(sign * mean, variance, how=how)
        if how not in ("average", "map"):
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        noise = float(likelihood.noise_variance)
        around = noise + (variance if how == "average" else 0.0)
        if self._mapped:
            return np.exp(self._maps[i].log_probability(mean, around, sign))
        if self.calibrate:
            slope, intercept = self._platt[i]
            return expit(sign * (slope * mean + intercept))
        return ndtr(sign * mean / np.sqrt(around))

    @property
    def _platt(self) -> list[tuple[float, float]]:
        """Slope and intercept of each contest, found when they are first needed."""
        if self._logistic is None:
            self._logistic = [platt(p.loo().mean, p.y > 0) for p in self._posteriors]
        return self._logistic

    @property
    def _mapped(self) -> bool:
        """Predictions of +-1 become probabilities by maps that are learned with the hyperparameters."""
        return isinstance(self.objective, str) and self.objective == LOO_PROBIT

    @property
    def _maps(self) -> list[ProbitMap]:
        """The map of each contest, found when they are first needed."""
        if self._probits is None:
            left = [(p.loo(), p.y) for p in self._posteriors]
            self._probits = [ProbitMap.fitted(loo.mean, loo.variance, y) for loo, y in left]
        return self._probits

    # -- what the shared parts ask ---------------------------------------------------------------------------

    @property
    def _training(self) -> tuple[Inputs, np.ndarray]:
        return self._data

    @property
    def _rule(self) -> Any:
        return "exact" if self.inference == LABEL_REGRESSION else self.inference

    def _function(self) -> AbstractFitted:
        from mercer.estimators.classification.function import ContestsFunction
        from mercer.explain import PosteriorFunction

        labels = tuple(map(str, self.classes_.tolist()))
        if self._joint:
            return PosteriorFunction(self._posteriors[0], labels)
        inputs, codes = self._data
        return ContestsFunction(
            inputs, codes, self._posteriors, self._contests, self._wins, labels, self._combined
        )

    def _attributed(self, Z: np.ndarray, beside: np.ndarray | None, groups: Any, seed: int) -> Attributions:
        from mercer.estimators.classification.latent import attributed

        return attributed(self, Z, beside, groups, seed)

    def _targets(self, y, n: int) -> np.ndarray:
        self.classes_, codes = encode(y, n)
        return codes

    def _problems(self, inputs: Inputs, codes: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        if self._joint:
            return [(inputs, codes)]
        return [contest_data(inputs, codes, contest) for contest in self._contests]

    def _labels(self) -> dict[str, Any]:
        dtype = self.classes_.dtype
        return {"type": "str" if dtype.kind == "U" else dtype.name, "classes": self.classes_.tolist()}

    def _restore(self, inputs: Inputs, y: np.ndarray, labels: Any) -> None:
        super()._restore(inputs, y, labels)
        classes = np.array(labels["classes"], dtype=labels["type"])
        sorted_ones, codes = encode(classes, len(classes))
        if classes.tolist() != labels["classes"] or not np.array_equal(codes, np.arange(len(sorted_ones))):
            raise InputError(f"the labels {labels} are not sorted classes of one type.")
        if not np.isin(y, np.arange(len(classes))).all():  # of data in chunks only some rows are kept
            raise InputError(f"the targets are not numbers of the {len(classes)} classes.")
        self.classes_, self._data = classes, (inputs, y)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.classification import told

        keeps_its_data(X)
        return told(self, budget)
