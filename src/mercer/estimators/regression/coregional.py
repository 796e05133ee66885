"""Outputs that are learned together: one process on a long table whose last column says which output.

Coregionalised outputs (GPML 9.1) have the covariance sum_q k_q(x, x') B_q[o, o'], B_q = L_q L_q' + diag(v_q):
the intrinsic model with one term, the linear model of coregionalisation with several. Noise has a variance of
each output's own and, where it is correlated, a part L L' between the outputs of a row. They are learned in
units of each output's standard deviation, about its mean; everything shown is in the user's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mercer.columns import Columns
from mercer.estimators import defaults, reading
from mercer.estimators.base import read_kernel
from mercer.estimators.many import ROWS
from mercer.estimators.regression.outputs import AbstractOutputs, Question, targets_of
from mercer.hyperpriors import LogNormal, Normal
from mercer.inputs import Inputs
from mercer.kernels import AbstractKernel, CategoricalCovariance, On, OutputNoise, Sum
from mercer.kernels.families.white import noise_apart
from mercer.likelihoods.scales import NOISE_SHARE
from mercer.linalg import memory as room
from mercer.params import param
from mercer.registry import unknown
from mercer.solvers.outputs import Outputs

if TYPE_CHECKING:
    from mercer.estimators.regression.regressor import GPRegressor

RANK = 2  # of L, at most
SHARED = 0.8  # of the variance of an output, to start with, what it has in common with others
OWN_PRIOR = LogNormal(-1.0, 1.5)  # of its own part; most probable: 4 %
NEW = 10**9  # rows to predict are numbered from here on


@dataclasses.dataclass(frozen=True, eq=False)
class Coregional(AbstractOutputs):
    """One model of all outputs. centre, scale: (p,), what each output is learned about, and in units of;
    reader: what reads the columns of X.
    """

    names: tuple[str, ...]
    members: tuple[GPRegressor, ...]
    centre: np.ndarray
    scale: np.ndarray
    reader: GPRegressor

    @classmethod
    def fit(cls, estimator: GPRegressor, X: Any, outputs: dict[str, np.ndarray]) -> Coregional:
        _refuse_settings(estimator)
        table = np.column_stack(list(outputs.values()))
        reader = clone(estimator)
        given = None if reader._own_kernel else read_kernel(reader.kernel)
        inputs, _ = reading.training_data(reader, X, np.zeros(len(table)), (given,))
        if inputs.values.dtype == object:
            raise ValueError("outputs='coregional' needs columns of numbers: give no kernel on objects.")
        centre = np.nanmean(table, 0)
        scale = np.array([defaults.target_scale(y[~np.isnan(y)]) for y in table.T])
        z = (table - centre) / scale
        kernel = _kernel(reader, inputs, z)
        member = _member(estimator, kernel).set_params(**_solver(estimator, kernel, inputs, z))
        output, row = np.nonzero(~np.isnan(z.T))
        member.fit(_long(inputs, row, output, row if _correlated(estimator) else None), z[row, output])
        return cls(tuple(outputs), (member,), centre, scale, reader)

    def ask(self, X: Any, question: Question, units: Sequence[str], latent: bool = False) -> np.ndarray:
        values, p = reading.new_inputs(self.reader, X), len(self.names)
        m = len(values)
        row, output = np.tile(np.arange(m), p), np.repeat(np.arange(p), m)
        numbers = np.full(m * p, -1) if latent else NEW + row
        rows = _long(Inputs(values, self._names), row, output, numbers if _correlated(self.reader) else None)
        found = question(self.members[0], rows)
        found = np.swapaxes(found.reshape(p, len(values), -1), 0, 1)  # (m, p, c)
        scale, centre = self.scale[:, None], self.centre[:, None]
        shown = {"value": found * scale + centre, "spread": found * scale}
        return np.stack([shown[unit][..., j] for j, unit in enumerate(units)], -1)

    @property
    def columns(self) -> Columns | None:
        return self.reader.columns_

    def log_density(self, X: Any, Y: Any) -> np.ndarray:
        both = self.ask(X, lambda m, X: np.stack(m.predict(X, return_std=True), 1), ("value", "spread"))
        mean, std = both[..., 0], both[..., 1]
        return -0.5 * (((targets_of(Y, self.names) - mean) / std) ** 2 + np.log(2.0 * np.pi)) - np.log(std)

    @property
    def log_evidence(self) -> float | None:
        (member,) = self.members
        if member.log_marginal_likelihood_ is None:
            return None
        output = member.posterior_.inputs.values[:, -1].astype(int)
        return member.log_marginal_likelihood_ - float(np.sum(np.log(self.scale[output])))

    @property
    def noise_variance(self) -> np.ndarray:
        return np.diag(self.noise_covariance).copy()

    @property
    def noise_covariance(self) -> np.ndarray:
        member = self.members[0]
        own = np.diag(np.asarray(member.noise_variance_, float))
        for term in _terms(member.kernel_):
            if isinstance(inner := _inner(term), OutputNoise):
                own = own + np.asarray(inner.loadings) @ np.asarray(inner.loadings).T
        return np.asarray(own * np.outer(self.scale, self.scale))

    @property
    def _names(self) -> tuple[str, ...]:
        columns = self.members[0].columns_
        assert columns is not None
        return columns.names[: -2 if _correlated(self.reader) else -1]

    @property
    def correlations(self) -> np.ndarray:
        """Between the outputs, (p, p), of the functions without noise: where the kernel is not stationary,
        in the middle of the data.
        """
        member, p = self.members[0], len(self.names)
        rows = np.tile(np.median(member.posterior_.inputs.values, 0), (p, 1))
        rows[:, -1] = np.arange(p)
        if _correlated(self.reader):
            rows[:, -2] = -1  # without noise
        B = member.kernel_(rows)
        d = np.sqrt(np.diag(B))
        return B / np.outer(d, d)

    def packed(self) -> dict[str, Any]:
        (member,) = self.members
        said = {"centre": self.centre, "scale": self.scale, "kernel": member.kernel, "columns": self.columns}
        return {"names": list(self.names), "members": [member._learned()]} | said

    @classmethod
    def unpacked(cls, estimator: GPRegressor, said: dict[str, Any]) -> Coregional:
        names = tuple(map(str, said["names"]))
        centre, scale = (np.asarray(said[key], float) for key in ("centre", "scale"))
        if centre.shape != (len(names),) or scale.shape != (len(names),) or not (scale > 0).all():
            raise ValueError(f"centre and scale are not those of {len(names)} outputs.")
        if not isinstance(said["kernel"], AbstractKernel) or len(said["members"]) != 1:
            raise ValueError("one model of all outputs is not there.")
        if not isinstance(said["columns"], Columns):
            raise ValueError("it does not say what the columns are.")
        member, reader = _member(estimator, said["kernel"]), clone(estimator)
        member._relearn(said["members"][0])
        reading.name_features(reader, said["columns"])
        return cls(names, (member,), centre, scale, reader)

    def summary(self) -> str:
        from mercer.tables import text_table

        shown = [
            [name, *(f"{c:.2f}" for c in row)]
            for name, row in zip(self.names, self.correlations, strict=True)
        ]
        noise = ""
        if _correlated(self.reader):
            S = self.noise_covariance
            d = np.sqrt(np.diag(S))
            table = [
                [name, *(f"{c:.2f}" for c in row)]
                for name, row in zip(self.names, S / np.outer(d, d), strict=True)
            ]
            noise = "\n\ncorrelation of their noise\n" + "\n".join(text_table(["", *self.names], table))
        spread = zip(self.names, np.sqrt(self.noise_variance), strict=True)
        said = "noise, standard deviations: " + ", ".join(f"{name} {one:.4g}" for name, one in spread)
        numbers = ", ".join(f"{name} {j}" for j, name in enumerate(self.names))
        how = (
            f"the model of all, where {numbers}, about their means and in units of their standard deviations:"
        )
        lines = "\n".join(text_table(["", *self.names], shown))
        told = f"{said}\n\ncorrelation of the functions without noise\n{lines}{noise}"
        return f"outputs are learned together\n{told}\n\n{how}\n{self.members[0].summary()}"


def _correlated(estimator: GPRegressor) -> bool:
    """Whether the noise of the outputs in a row is correlated."""
    kinds = ("independent", "correlated")
    if estimator.output_noise not in kinds:
        raise ValueError(unknown("output_noise", estimator.output_noise, kinds))
    return estimator.output_noise == "correlated"


def _long(
    inputs: Inputs, row: np.ndarray, output: np.ndarray, numbers: np.ndarray | None
) -> dict[str, np.ndarray]:
    """A table with a row for each pair of a row and an output, and a column with the numbers of the rows,
    where they matter.
    """
    names = inputs.names or tuple(f"x{j}" for j in range(inputs.values.shape[1]))
    columns = dict(zip(names, inputs.values[row].T, strict=True))
    if numbers is not None:
        columns |= {_free("row", names): numbers.astype(float)}
    return columns | {_free("output", names): output.astype(float)}


def _free(what: str, names: tuple[str, ...]) -> str:
    """A name for the column that says which row or output."""
    return next(name for name in (what, f"{what} of y", f"which {what} of y") if name not in names)


def _refuse_settings(estimator: GPRegressor) -> None:
    if estimator.likelihood not in (None, "gaussian") or estimator.warp is not None:
        raise ValueError("outputs='coregional' goes with Gaussian noise: leave out likelihood and warp.")
    for name in ("noise_variance", "noise_by", "basis", "input_noise", "groups", "noise_along"):
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"outputs='coregional' learns a noise and a mean of each output: leave out {name}."
            )


def _member(estimator: GPRegressor, kernel: AbstractKernel) -> GPRegressor:
    settings = {"kernel": kernel, "noise_by": -1, "mean": None, "repeats": "keep"}
    alone = {"outputs": "independent", "output_column": None}
    return clone(estimator).set_params(**settings, **alone)


def _solver(estimator: GPRegressor, kernel: AbstractKernel, inputs: Inputs, z: np.ndarray) -> dict[str, Any]:
    """The settings that solve for outputs one by one, where nothing else was asked for, all of them are
    known everywhere, one term is not noise, and there is room for it.
    """
    if sum(not isinstance(_inner(term), OutputNoise) for term in _terms(kernel)) > 1:
        return {}
    if estimator.solver is not None or estimator.inference not in (None, "exact") or np.isnan(z).any():
        return {}
    solver = Outputs(outputs=z.shape[1])
    limit = room.LIMIT if estimator.memory is None else room.parse(estimator.memory)
    if len(z) > ROWS or solver.cost(z.size, inputs.values.shape[1]).bytes > limit:
        return {}
    return {"solver": solver, "memory": None}


def _kernel(estimator: GPRegressor, inputs: Inputs, z: np.ndarray) -> AbstractKernel:
    """The sum over terms k(x, x'), of variance 1 where the default is used, times a B of each, and the part
    of the noise that outputs share.
    """
    d, p = inputs.values.shape[1], z.shape[1]
    if estimator._own_kernel:
        kernel: Any = defaults.default_kernel(inputs.values, 1.0, columns=estimator.columns_, held=True)
    else:
        kernel, white = noise_apart(read_kernel(estimator.kernel))  # type: ignore[arg-type]
        if white is not None:
            raise ValueError("outputs='coregional' learns a noise of each output: leave out White.")
        kernel = kernel.bind(d, inputs.names)
    rank = min(p, RANK) if estimator.output_rank is None else estimator.output_rank
    if not 1 <= rank <= p:
        raise ValueError(f"output_rank must be between 1 and the number of outputs, {p}; got {rank}.")
    loadings, own = _start(z, rank)
    terms = _terms(kernel)
    correlated = _correlated(estimator)
    levels, last = tuple(float(j) for j in range(p)), d + int(correlated)
    parts: list[AbstractKernel] = []
    for term in terms:
        mixing = CategoricalCovariance(
            levels,
            param(loadings / np.sqrt(len(terms)), prior=Normal(0.0, 1.0)),
            param(own / len(terms), prior=OWN_PRIOR),
        )
        parts.append(term.on(*range(d)) * mixing.on(last))
    if correlated:
        shared = np.sqrt(NOISE_SHARE) * _start(_differences(inputs.values, z), max(1, min(p - 1, RANK)))[0]
        parts.append(OutputNoise(param(shared, prior=Normal(0.0, 1.0))).on(d, last))
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


def _start(z: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Loadings (p, r) and own variances (p,) by the correlations of standardised outputs, over rows where
    both are there.
    """
    p = z.shape[1]
    seen = ~np.isnan(z)
    filled = np.where(seen, z, 0.0)
    both = np.maximum(seen.T.astype(float) @ seen, 1.0)
    S = np.where(np.eye(p, dtype=bool), 1.0, np.clip(filled.T @ filled / both, -0.95, 0.95))
    value, vector = np.linalg.eigh(S)
    loadings = vector[:, -rank:] * np.sqrt(SHARED * np.maximum(value[-rank:], 0.05))
    return loadings, np.maximum(1.0 - np.sum(loadings**2, 1), 0.1)


def _differences(X: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Standardised differences (n, p) of outputs between each row and the nearest other one: noise, mostly,
    where rows are close together.
    """
    from scipy.spatial import cKDTree

    if len(X) < 3:
        return z
    scaled = X / defaults.column_scales(X)
    _, nearest = cKDTree(scaled).query(scaled, 2)
    # of rows at one place either may come first
    other = np.where(nearest[:, 0] == np.arange(len(X)), nearest[:, 1], nearest[:, 0])
    apart = z - z[other]
    return apart / np.maximum(np.sqrt(np.nanmean(apart**2, 0)), 1e-12)


def _terms(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def _inner(term: AbstractKernel) -> AbstractKernel:
    """A term without the choice of its columns."""
    return term.kernel if isinstance(term, On) else term
