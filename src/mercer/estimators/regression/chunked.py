"""A regressor learns from a table in chunks: which settings go with it, and the fit."""

from __future__ import annotations

from typing import Any

from mercer.distributed.on_dask import executor_for, source_of
from mercer.estimators import reading
from mercer.estimators.base import read_kernel
from mercer.estimators.chunked import solver_for, surveyed
from mercer.estimators.regression.noise import RowNoise
from mercer.inference import by_name
from mercer.inputs import InputError
from mercer.learning import Fit
from mercer.solvers import VFE

__all__ = ["fit_chunks"]

# settings that look at single rows of all data, or fit several times, and what they are without it
PLAIN = {
    "noise_by": None, "input_noise": None, "monotone": None, "convex": None, "noise_along": None,
    "output_column": None, "basis": None, "objective": "evidence", "outputs": "independent",
}  # fmt: skip
REPEATS = "rows that repeat others were not looked for: in chunks every row counts"


def fit_chunks(estimator: Any, X: Any, y: Any, of_rows: dict[str, Any]) -> Fit:
    """The fit of a regressor to data in chunks; sets what `fit` sets before it learns."""
    given = [name for name, value in of_rows.items() if value is not None]
    given += [name for name, plain in PLAIN.items() if getattr(estimator, name) not in (plain, {})]
    given += [f"kernel={estimator.kernel!r}"] if estimator._chosen_kernel else []
    given += ["likelihood='auto'"] if estimator.likelihood == "auto" else []
    if given:
        raise InputError(
            f"data in chunks do not go with {', '.join(given)}: leave it out, or fit to an array."
        )
    kernel = read_kernel(estimator.kernel)
    groups = estimator._grouping
    source = source_of(X, y)
    executor = executor_for(source, estimator.parallel)
    seen, columns = surveyed(source, executor, kernel, estimator.missing, groups, estimator._seed())
    reading.name_features(estimator, columns)
    estimator._index = estimator.robust_comparison_ = estimator.search_ = estimator._copies = None
    estimator.noise_covariance_ = None
    model = estimator._model(estimator.likelihood, kernel, seen.inputs, seen.y, RowNoise())
    rule = by_name(estimator.inference, model.likelihood)
    settings = estimator._settings("") | {"solver": solver_for(estimator, seen, rule, VFE)}
    if not estimator.learn:
        settings["max_evaluations"] = 0
    from mercer.learning import fit

    return fit(model, seen, inference=estimator.inference, **settings)
