"""Mercer: Gaussian processes for people with data. Each name is imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mercer import jax_settings as _jax_settings
from mercer.registry import exporter as _exporter

_jax_settings.make_when_loaded()

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mercer import (
        columns,
        control,
        datasets,
        decide,
        distributed,
        em,
        estimators,
        explain,
        hyperpriors,
        inference,
        inputs,
        interop,
        kernels,
        latent,
        learning,
        likelihoods,
        linalg,
        means,
        metrics,
        observe,
        online,
        params,
        persist,
        posteriors,
        relatives,
        report,
        sampling,
        selection,
        series,
        solvers,
        structure,
        theory,
        uncertain,
        viz,
        warps,
    )
    from mercer.decide import Optimiser, design, optimise
    from mercer.estimators import (
        GPLVM,
        GTM,
        HMM,
        BayesianGaussianMixture,
        BayesianHMM,
        Event,
        GaussianMixture,
        GPClassifier,
        GPDensity,
        GPIntensity,
        GPMixture,
        GPPanel,
        GPRegressor,
        GPTimeSeries,
        predict_files,
        search,
    )
    from mercer.gp import GP, Model, log_evidence, log_evidence_and_gradient
    from mercer.learning import Fit, assess, compare, fit
    from mercer.params import fixed, param
    from mercer.persist import load, save
    from mercer.relatives import SmoothingSpline, ThinPlate

__all__ = [
    "GP",
    "GPLVM",
    "GTM",
    "HMM",
    "BayesianGaussianMixture",
    "BayesianHMM",
    "Event",
    "Fit",
    "GPClassifier",
    "GPDensity",
    "GPIntensity",
    "GPMixture",
    "GPPanel",
    "GPRegressor",
    "GPTimeSeries",
    "GaussianMixture",
    "Model",
    "Optimiser",
    "SmoothingSpline",
    "ThinPlate",
    "assess",
    "columns",
    "compare",
    "control",
    "datasets",
    "decide",
    "design",
    "distributed",
    "em",
    "estimators",
    "explain",
    "fit",
    "fixed",
    "hyperpriors",
    "inference",
    "inputs",
    "interop",
    "kernels",
    "latent",
    "learning",
    "likelihoods",
    "linalg",
    "load",
    "log_evidence",
    "log_evidence_and_gradient",
    "means",
    "metrics",
    "observe",
    "online",
    "optimise",
    "param",
    "params",
    "persist",
    "posteriors",
    "predict_files",
    "relatives",
    "report",
    "sampling",
    "save",
    "search",
    "selection",
    "series",
    "solvers",
    "structure",
    "theory",
    "uncertain",
    "viz",
    "warps",
]

_NAMES = {
    "decide": "Optimiser design optimise",
    "estimators": (
        "BayesianGaussianMixture BayesianHMM Event GaussianMixture GPClassifier GPDensity GPIntensity GPLVM "
        "GPMixture GPPanel GPRegressor GPTimeSeries GTM HMM predict_files "
        "search"
    ),
    "gp": "GP Model log_evidence log_evidence_and_gradient",
    "learning": "Fit assess compare fit",
    "params": "fixed param",
    "persist": "load save",
    "relatives": "SmoothingSpline ThinPlate",
}
_ROOMS = frozenset(__all__) - set(" ".join(_NAMES.values()).split())
_export = _exporter(__name__, _NAMES)


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"mercer.{name}") if name in _ROOMS else _export(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
