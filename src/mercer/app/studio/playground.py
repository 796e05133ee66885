"""The playground: a few points on a line, and what a Gaussian process makes of them.

A change must be answered while a slider moves, so nothing may be compiled for it: neither for the number of
points nor for another kernel. The covariance of all places at once (points, padded to a few sizes, and the
grid of the picture) is therefore computed operation by operation, and models see it through `Evaluated`, a
kernel that looks it up; every rule and solver works with that as with any other.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from mercer.gp import GP, Model
from mercer.kernels import parse
from mercer.kernels.algebra.sums import Product, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.objects import Rows
from mercer.learning import fit
from mercer.likelihoods import AbstractLikelihood, Bernoulli, Gaussian, StudentT
from mercer.linalg.tiles import tile_size
from mercer.params import Held, Parameter, element_names, param, parameters, replace_leaves, strip
from mercer.progress import Deadline, within

__all__ = ["FAMILIES", "Asked", "Playground"]

GRID = 201  # places at which the functions are drawn
POINTS = 200  # at most
LEVEL = 0.95  # of the bands
PATIENCE = "8s"  # that learning may take

# what the menu offers: a name, a formula to begin with on a view of width 10, and what its functions are like
FAMILIES = (
    ("SE", "SE(l=1)", "smooth"),
    ("Matern 5/2", "Matern(l=1, nu=2.5)", "twice differentiable"),
    ("Matern 3/2", "Matern(l=1, nu=1.5)", "once differentiable"),
    ("Matern 1/2", "Matern(l=1, nu=0.5)", "continuous, rough"),
    ("RationalQuadratic", "RationalQuadratic(l=1, alpha=1)", "smooth on many scales"),
    ("Periodic", "Periodic(period=2, l=1)", "repeats itself"),
    ("Cosine", "Cosine(l=0.5)", "one pure wave"),
    ("Linear", "Linear()", "straight lines through 0"),
    ("Constant", "Constant()", "an unknown level"),
    ("Polynomial", "Polynomial(degree=2, offset=1)", "parabolas"),
    ("NeuralNetwork", "NeuralNetwork()", "flat far away, bends near 0"),
    ("PiecewisePolynomial", "PiecewisePolynomial(l=2, q=2)", "independent beyond its length"),
    ("ChangePoint", "ChangePoint(SE(l=0.5), SE(l=3), location=0, steepness=4)", "changes its character"),
)


class Asked(BaseModel):
    """The state of the playground, as the page sends it.

    task: "regression", "robust" (Student-t noise) or "classification" (y is the class, 1 above 0)
    points: (x, y) of each
    kernel: its formula, with the values of its hyperparameters
    likelihood: values of the hyperparameters of the noise, by name; what is missing has its default
    values: hyperparameters that have changed since, by their names in the answer
    view: the ends of the picture along x
    draws, of, seed: how many functions are drawn, from the prior or the posterior, and with which numbers
    """

    model_config = ConfigDict(extra="forbid")

    task: Literal["regression", "robust", "classification"] = "regression"
    points: list[tuple[FiniteFloat, FiniteFloat]] = Field(default_factory=list, max_length=POINTS)
    kernel: str = Field(default="SE(l=1)", max_length=2000)
    likelihood: dict[str, FiniteFloat] = Field(default_factory=dict, max_length=8)
    values: dict[str, FiniteFloat] = Field(default_factory=dict, max_length=64)
    view: tuple[FiniteFloat, FiniteFloat] = (-5.0, 5.0)
    draws: int = Field(default=0, ge=0, le=20)
    of: Literal["prior", "posterior"] = "posterior"
    seed: int = Field(default=0, ge=0, lt=2**31)


class Playground:
    """Answers one question at a time; the page sends the next when it has the last answer."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def answer(self, asked: Asked) -> dict[str, Any]:
        """Bands, draws and evidence of the model as it is."""
        with self._turn:
            return _answer(asked, _model(asked), [])

    def words(self, asked: Asked) -> list[str]:
        """What kind of functions the kernel expects, in sentences, without those of its terms."""
        with self._turn:
            lines = _model(asked).gp.kernel.describe(1).splitlines()[1:]
        first = next((i for i, line in enumerate(lines) if line.startswith("  term 1")), len(lines))
        return [line.strip() for line in lines[:first] if "egenerate" not in line]

    def learn(self, asked: Asked) -> dict[str, Any]:
        """The same of the model whose hyperparameters make the points most probable."""
        X, y = _data(asked)
        if len(y) < 2:
            raise ValueError("learning needs at least two points: click into the picture to add some.")
        with self._turn, warnings.catch_warnings(record=True) as caught, within(Deadline.after(PATIENCE)):
            warnings.simplefilter("always")
            found = fit(_model(asked), X[:, None], y, progress=False)
            notes = [f"learned with {found.status.evaluations} evaluations of the evidence"]
            notes += list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
            return _answer(asked, found.model, notes)

    def warm_up(self, stop: threading.Event) -> None:
        """Compile what every family needs, one small piece at a time, until someone says stop."""
        tasks: tuple[Any, ...] = ("regression", "robust", "classification")
        points = [(-1.0, 1.0), (0.0, -1.0), (1.0, 1.0)]
        asked = [Asked(task=task, points=points, draws=2) for task in tasks]
        asked += [Asked(points=points, kernel=formula) for _, formula, _ in FAMILIES]
        for one in asked:
            if stop.is_set():
                return
            self.answer(one)


# -------------------------------------------------------------------------------------------- the covariance


class Evaluated(AbstractKernel):
    """A covariance matrix that is known at all places (N, N); inputs are places in it."""

    gram: Held = eqx.field(static=True)

    def encode(self, X: Any) -> Rows:
        places = np.asarray(X, np.int32)[:, 0]
        return Rows(places, self.gram.value[places])

    def block(self, A: Rows, B: Rows) -> jax.Array:
        return A.values[:, B.places]

    def diag(self, A: Rows) -> jax.Array:
        return jnp.take_along_axis(A.values, A.places[:, None], 1)[:, 0]


def _evaluated(kernel: AbstractKernel, X: np.ndarray, grid: np.ndarray) -> tuple[Evaluated, np.ndarray]:
    """The kernel at points X (n,) and at the grid (m,), and the places of the grid (m, 1); those of the
    points are 0 ... n - 1.
    """
    size = tile_size(len(X))
    padding = np.full(size - len(X), grid[0])
    bare = strip(kernel.bind(1))
    A = jax.tree.map(jnp.asarray, bare.encode(np.concatenate([X, padding, grid])[:, None]))
    return Evaluated(Held(np.asarray(bare.block(A, A)))), size + np.arange(len(grid))[:, None]


# ------------------------------------------------------------------------------------------------- the model


def _data(asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    points = np.array(asked.points, float).reshape(-1, 2)
    X, y = points[:, 0], points[:, 1]
    return X, (y > 0).astype(float) if asked.task == "classification" else y


def _likelihood(asked: Asked) -> AbstractLikelihood:
    start: dict[str, AbstractLikelihood] = {
        "regression": Gaussian(0.04),
        "robust": StudentT(scale=0.2, dof=param(4.0, bounds=(1.0, 100.0))),
        "classification": Bernoulli(),
    }
    likelihood = start[asked.task]
    known = {p.name for p in parameters(likelihood)}
    return replace_leaves(likelihood, {k: np.array(v) for k, v in asked.likelihood.items() if k in known})


def _model(asked: Asked) -> Model:
    """The model of the formula, with the values that have changed since."""
    kernel = parse(asked.kernel)
    if kernel.reads_objects():
        raise ValueError("the points of the playground are numbers: this kernel reads text or categories.")
    model = Model(GP(kernel.bind(1)), _likelihood(asked))
    changed: dict[str, np.ndarray] = {}
    for p in parameters(model):
        for i, element in enumerate(element_names(p.name, np.shape(p.value))):
            if element in asked.values:
                new = changed.setdefault(p.name, np.array(p.value, float))
                new.reshape(-1)[i] = asked.values[element]
                p.constraint.check(new, p.name)
    return replace_leaves(model, changed)


def _answer(asked: Asked, model: Model, notes: list[str]) -> dict[str, Any]:
    began = time.perf_counter()
    low, high = sorted(asked.view)
    if not high > low:
        raise ValueError("the picture has no width: its ends along x are the same.")
    model = replace_leaves(model, {p.name: _rounded(p.value) for p in parameters(model)})
    X, y = _data(asked)
    grid = np.linspace(low, high, GRID)
    kernel, places = _evaluated(model.gp.kernel, X, grid)
    seen = Model(GP(kernel), model.likelihood)
    told, posterior = _bands(seen, len(X), y, places)
    if asked.draws:
        prior = posterior is None or asked.of == "prior"
        f = (
            seen.gp.sample(places, asked.draws, asked.seed)
            if prior
            else posterior.sample(places, asked.draws, asked.seed, latent=True)
        )
        told["draws"] = [_numbers(_probabilities(model.likelihood, g) if _classes(model) else g) for g in f]
    return {
        "kernel": model.gp.kernel.formula(17),
        "terms": [list(term) for term in _terms(model.gp.kernel, high - low)],
        "likelihood": {p.name: float(p.value) for p in parameters(model.likelihood) if p.free},
        "noise": [
            _slider(p, f"likelihood.{p.name}", 0, high - low) for p in parameters(model.likelihood) if p.free
        ],
        "x": _numbers(grid),
        **told,
        "notes": notes + list(posterior.notes if posterior is not None else ()),
        "ms": round(1000 * (time.perf_counter() - began), 1),
    }


def _bands(model: Model, n: int, y: np.ndarray, places: np.ndarray) -> tuple[dict[str, Any], Any]:
    """Mean and bands of f and of y, or the probability of class 1; the evidence and its parts; and the
    posterior, where there are data.
    """
    likelihood: Any = model.likelihood
    if n:
        posterior = model.condition(np.arange(n)[:, None], y, progress=False)
        mean, variance = posterior.latent_moments(places)
        evidence = _evidence(posterior)
    else:
        posterior, evidence = None, None
        mean, variance = (
            np.zeros(len(places)),
            np.array([model.gp.kernel.gram.value[i, i] for i in places[:, 0]]),
        )
    z = NormalDist().inv_cdf((1 + LEVEL) / 2) * np.sqrt(np.asarray(variance))
    told: dict[str, Any] = {"evidence": evidence}
    if _classes(model):
        told["mean"] = _numbers(likelihood.probability(mean, variance))
        told["lower"] = _numbers(_probabilities(likelihood, mean - z))
        told["upper"] = _numbers(_probabilities(likelihood, mean + z))
        return told, posterior
    told |= {"mean": _numbers(mean), "lower": _numbers(mean - z), "upper": _numbers(mean + z)}
    y_lower = likelihood.quantile((1 - LEVEL) / 2, mean, variance)
    told |= {"y_lower": _numbers(y_lower), "y_upper": _numbers(2 * mean - y_lower)}  # the noise is symmetric
    if posterior is not None and model.likelihood.scale_mixture:
        told["outliers"] = _numbers(_outliers(posterior))
    return told, posterior


def _outliers(posterior: Any) -> np.ndarray:
    """How little each point weighs (n,), as `posterior.outlier_score()`, but compiled for a few n only."""
    n = len(posterior.y)
    y, mean, variance = (
        np.pad(np.reshape(a, -1), (0, tile_size(n) - n), "edge")
        for a in (posterior.y, *posterior.loo_latent())
    )
    return posterior.model.likelihood.outlier_score(y, mean, variance)[:n]


def _evidence(posterior: Any) -> dict[str, Any]:
    """The log evidence in nats; for Gaussian noise with its terms (5.8), else how far the data moved f."""
    told: dict[str, Any] = {"total": posterior.log_evidence}
    if posterior.can("evidence_terms"):
        terms = posterior.evidence_terms()
        told |= {"data_fit": terms.data_fit, "complexity": terms.complexity, "constant": terms.constant}
    elif posterior.can("prior_divergence"):
        told["divergence"] = posterior.prior_divergence()
    return {name: float(value) for name, value in told.items()}


def _classes(model: Model) -> bool:
    return model.likelihood.categorical


def _probabilities(likelihood: Any, f: np.ndarray) -> np.ndarray:
    """Of class 1 where f is known (m,)."""
    return np.asarray(likelihood.probability(f, np.zeros(len(f))))


# ------------------------------------------------------------------------------------------------ for people


def _terms(kernel: AbstractKernel, width: float) -> Iterator[list[dict[str, Any]]]:
    """The terms of a sum, each as its factors: a formula and sliders."""
    for i, term in enumerate(kernel.children if isinstance(kernel, Sum) else (kernel,)):
        path = f"kernel.terms.{i}." if isinstance(kernel, Sum) else "kernel."
        inner = "factors.{}." if isinstance(term, Product) else ""
        held = {p.name for p in parameters(term) if p.held}
        yield [
            _factor(factor, inner.format(j), path, held, width)
            for j, factor in enumerate(term.children if isinstance(term, Product) else (term,))
        ]


def _factor(
    kernel: AbstractKernel, within_term: str, path: str, held: set[str], width: float
) -> dict[str, Any]:
    formula = kernel.formula(17)
    sliders = [
        _slider(p, f"{path}{within_term}{element}", i, width)
        for p in parameters(kernel)
        if p.free and f"{within_term}{p.name}" not in held
        for i, element in enumerate(element_names(p.name, np.shape(p.value)))
    ]
    return {
        "name": type(kernel).__name__,
        "formula": f"({formula})" if isinstance(kernel, Sum) else formula,
        "sliders": sliders,
    }


LABELS = {"lengthscale": "length-scale", "noise_variance": "noise variance", "dof": "degrees of freedom"}


def _slider(p: Parameter, name: str, i: int, width: float) -> dict[str, Any]:
    """A hyperparameter with the ends of its slider; on a logarithmic scale where it is positive."""
    value, field = float(np.reshape(p.value, -1)[i]), p.name.rsplit(".", 1)[-1]
    ends = {
        "lengthscale": (0.005 * width, 5 * width),
        "period": (0.02 * width, 2 * width),
        "noise_variance": (1e-5, 10.0),
        "scale": (1e-3, 10.0),
        "variance": (1e-3, 100.0),
        "dof": (1.0, 100.0),
        "location": (-width / 2, width / 2),
    }
    c = p.constraint
    whole = np.isfinite(c.lower) and np.isfinite(c.upper)
    usual = (c.lower, c.upper) if whole else (1e-2, 1e2) if c.lower == 0 else (-10.0, 10.0)
    low, high = ends.get(field, usual)
    if p.info.bounds is not None:
        low, high = p.info.bounds
    label = ".".join([*p.name.split(".")[:-1], LABELS.get(field, field)])
    return {
        "name": name,
        "label": label.replace("terms.", "").replace("kernel.", "").replace(".", " "),
        "value": value,
        "low": min(low, value),
        "high": max(high, value),
        "log": bool(c.lower == 0 and not whole and value > 0),
    }


def _rounded(value: Any) -> np.ndarray:
    """Four digits, as the page shows them: what is shown is what is computed with."""
    return np.array([float(f"{v:.4g}") for v in np.reshape(value, -1)]).reshape(np.shape(value))


def _numbers(values: Any) -> list[float]:
    """For JSON: six digits are more than a picture shows."""
    array = np.asarray(values, float)
    array = np.where(np.isfinite(array), array, 0.0)
    return [float(f"{v:.6g}") for v in array]
