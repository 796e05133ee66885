"""What intensities and densities share: points become counts in cells, whose log rate is a GP."""

from __future__ import annotations

import abc
import math
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln
from sklearn.utils import check_random_state

from mercer.columns import Columns
from mercer.conditioned import PointFunction
from mercer.distributed import Parallel
from mercer.estimators import defaults, reading
from mercer.estimators.base import AbstractEstimator, fitted, read_kernel
from mercer.estimators.points.cells import Cells, Exposure
from mercer.estimators.shared_work import AbstractShared
from mercer.gp import GP, Model
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import AbstractInference
from mercer.inputs import InputError, Inputs, as_inputs, as_targets, is_table
from mercer.kernels import AbstractKernel
from mercer.learning import Fit
from mercer.likelihoods import Poisson
from mercer.means import AbstractMean, Polynomial
from mercer.params import fixed
from mercer.progress import Progress
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.solvers.protocol import AbstractSolver

RULE = "variational"  # Laplace's mode has some percent too many points where counts are small
LEVEL = 3.0  # standard deviation of the overall log level, about the one seen
SMOOTH = 0.8  # correlation between neighbouring cells below which they are said to be too wide
MARGIN_NOTE = "the region is that of the points and a margin: give region= where it is known"
DRAWS = 4000  # of intensities, for what has no closed form


class AbstractPoints(AbstractShared, AbstractEstimator, AbstractReported):
    """A GP for the log of an intensity of points, learned from their counts in the cells of a grid."""

    numeric_targets: ClassVar[bool] = True
    word: ClassVar[str]
    missing = "error"

    def __init__(
        self,
        kernel: str | AbstractKernel | None = None,
        region: Any = None,
        cells: int | tuple[int, ...] | None = None,
        inference: str | AbstractInference | None = None,
        solver: str | AbstractSolver | None = None,
        restarts: int = 0,
        max_evaluations: int = 500,
        learn: bool = True,
        memory: str | float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.kernel = kernel
        self.region = region
        self.cells = cells
        self.inference = inference
        self.solver = solver
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.learn = learn
        self.memory = memory
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    @abc.abstractmethod
    def _margin(self, points: np.ndarray) -> np.ndarray:
        """How far the region reaches beyond the points along each column (d,), where none is given."""

    @abc.abstractmethod
    def _mean(self, points: np.ndarray) -> AbstractMean:
        """The prior mean of the log intensity, up to its level."""

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, exposure: Exposure = None) -> Self:
        """Learn from points X (n, d), one in each row; times may be (n,). y is ignored.

        exposure: how much was observed at each place, relative to 1: a function of places (m, d) that answers
            (m,), or an array of the shape of the cells. True and False (or 1 and 0) draw a window with holes
        """
        kernel = read_kernel(self.kernel)
        inference = RULE if self.inference is None else self.inference
        rule = inference_by_name(inference, Poisson())
        if rule.learns != "gradient":
            raise ValueError(
                f"{type(self).__name__} takes a rule that finds one Gaussian: inference='laplace', 'ep' or "
                "'variational'."
            )
        points, names = self._read(X)
        self.cells_ = Cells.of(points, self.region, self.cells, exposure, self._margin(points))
        self.points_ = points
        seen = self.cells_.seen
        inputs = Inputs(self.cells_.centres[seen], names)
        counts = self.cells_.counts(points)[seen]
        model = self._model(kernel, points)
        found = self._learn(
            model, inputs, counts, inference, restarts=self.restarts, progress=self.progress,
            max_evaluations=self.max_evaluations, seed=self._seed(), parallel=self.parallel,
        )  # fmt: skip
        self._take([found])
        if (coarse := self._coarse()) is not None:
            warnings.warn(coarse, UserWarning, stacklevel=2)
        return self

    def _read(self, X: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
        inputs = as_inputs(np.reshape(X, (-1, 1)) if not is_table(X) and np.ndim(X) == 1 else X)
        points, names = inputs.values, inputs.names if is_table(X) else None
        if len(points) < 2:
            raise InputError(f"at least two points are needed to learn from, got n_samples = {len(points)}.")
        reading.name_features(self, Columns.raw(names, points.shape[1]))
        return points, names

    def _model(self, kernel: AbstractKernel | None, points: np.ndarray) -> Model:
        centres, observed = self.cells_.centres[self.cells_.seen], self._observed()
        if kernel is None:
            kernel = defaults.default_kernel(points, 1.0)
        mean = self._mean(points)
        shape = np.asarray(mean.value(centres))
        level = math.log(len(points) / float(np.sum(observed * np.exp(shape))))
        basis = Polynomial(0, covariance=LEVEL**2, weights=np.array([level]))
        return Model(GP(kernel, mean, basis), Poisson(exposure=fixed(observed)))

    def _observed(self) -> np.ndarray:
        """What was observed of each cell that was: its size times its exposure."""
        return self.cells_.size * self.cells_.exposure[self.cells_.seen]

    def _take(self, found: list[Fit]) -> None:
        (self.fit_,) = found
        self.model_, self.posterior_ = self.fit_.model, self.fit_.posterior
        self.kernel_ = self.model_.gp.kernel
        counts, observed = self.posterior_.y, self._observed()
        grid = float(np.sum(counts * np.log(observed) - gammaln(counts + 1.0)))
        self.log_marginal_likelihood_ = float(self.posterior_.log_evidence) - grid

    def _coarse(self) -> str | None:
        """What there is to say where neighbouring cells differ much."""
        cells = self.cells_
        middle = 0.5 * (cells.lower + cells.upper)
        near = middle + np.vstack([np.zeros(len(middle)), np.diag(cells.widths)])
        K = np.asarray(self.kernel_(near))
        rough = K[0, 1:] / K[0, 0] < SMOOTH
        if not rough.any():
            return None
        column = int(np.argmax(rough))
        return (
            f"the log intensity changes within the width of a cell, {cells.widths[column]:.3g} along column "
            f"{column}: numbers depend on the grid. Give more cells than {cells.shape}, cells=..."
        )

    @abc.abstractmethod
    def predict(self, X: Any) -> np.ndarray:
        """What there is at places X (m, d), on average: (m,)."""

    @abc.abstractmethod
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The ends (m,) of its interval at each place."""

    def point_function(self) -> PointFunction:
        """The intensity or density as a function of places, as pictures ask for it."""
        fitted(self)
        names = self.columns_.names if self.columns_ is not None and self.columns_.named else None

        def table(X: np.ndarray) -> Any:
            return X if names is None else dict(zip(names, X.T, strict=True))

        return PointFunction(
            self.word, self.points_, names, list(zip(self.cells_.lower, self.cells_.upper, strict=True)),
            lambda X: self.predict(table(X)), lambda X, level: self.predict_interval(table(X), level),
        )  # fmt: skip

    # -- what is there ---------------------------------------------------------------------------------------

    def _intensity(self, X: np.ndarray) -> np.ndarray:
        """Posterior mean of the intensity (m,)."""
        return self.posterior_.mean(X)

    def _at_cells(self) -> np.ndarray:
        """Its means at the centres of the cells (K,)."""
        return self._intensity(self.cells_.centres)

    def _draws(self, X: np.ndarray, size: int, seed: Any) -> np.ndarray:
        """Intensities (size, m)."""
        return np.exp(self.posterior_.sample(X, size, seed, latent=True))

    def _new(self, X: Any) -> np.ndarray:
        """Places (m, d); of one column they may be (m,)."""
        fitted(self)
        vector = not is_table(X) and np.ndim(X) == 1 and self.n_features_in_ == 1
        return self._inputs(np.reshape(X, (-1, 1)) if vector else X)

    def _generator(self, random_state: Any) -> np.random.Generator:
        state = self.random_state if random_state is None else random_state
        return np.random.default_rng(check_random_state(state).randint(2**31 - 1))

    def _lines(self) -> str:
        """What was learned, as text."""
        fitted(self)
        cells, status = self.cells_, self.fit_.status
        hidden = int((~cells.seen).sum())
        coarse = self._coarse()
        lines = [
            f"{self.word} of {len(self.points_)} points in {cells.words()}",
            f"counted in {' x '.join(map(str, cells.shape))} cells"
            + (f", of which {hidden} were not observed" if hidden else ""),
            *([] if self.region is not None else [MARGIN_NOTE]),
            f"log intensity: {self.kernel_}",
            f"log evidence of the points {self.log_marginal_likelihood_:.3f}; optimiser: "
            + ("converged" if status.converged else f"not converged ({status.message})"),
            *([] if coarse is None else [f"note: {coarse}"]),
        ]
        return "\n".join(lines)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.others import points_told

        keeps_its_data(X)
        return points_told(self)

    # -- what saving asks ------------------------------------------------------------------------------------

    @property
    def _training(self) -> tuple[Inputs, np.ndarray]:
        return self.posterior_.inputs, self.posterior_.y

    def _problems(self, inputs: Inputs, y: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        return [(inputs, y)]

    def _targets(self, y: Any, n: int) -> np.ndarray:
        return as_targets(y, n)

    def _labels(self) -> Any:
        cells = self.cells_
        return {
            "points": self.points_,
            "lower": cells.lower,
            "upper": cells.upper,
            "shape": list(cells.shape),
            "exposure": cells.exposure,
        }

    def _restore(self, inputs: Inputs, y: np.ndarray, labels: Any) -> None:
        super()._restore(inputs, y, labels)
        points, shape = np.asarray(labels["points"], float), tuple(map(int, labels["shape"]))
        lower, upper, exposure = (np.asarray(labels[name], float) for name in ("lower", "upper", "exposure"))
        d = inputs.values.shape[1]
        if not (
            points.ndim == 2
            and points.shape[1] == lower.size == upper.size == len(shape) == d
            and exposure.shape == (math.prod(shape),)
            and int((exposure > 0).sum()) == len(y)
        ):
            raise ValueError("the points and their cells have no sensible shape.")
        self.points_, self.cells_ = points, Cells(lower, upper, shape, exposure)
