"""The hyperparameters of an estimator, as scikit-learn's users ask for them: by name, as one vector, and the
evidence as a function of it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer.estimators.base import INTEGRATED, AbstractEstimator, fitted, read_kernel
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import site_rule
from mercer.kernels import AbstractKernel
from mercer.learning import Fit
from mercer.params import flatten, parameters, replace_leaves

WITHIN = "kernel__"  # what names of settings within the kernel begin with, as in scikit-learn


class AbstractLearned(AbstractEstimator):
    """An estimator whose hyperparameters are those of one model, or of several of one kind.

    Numbers within a kernel that was given are settings, too: `set_params(kernel__lengthscale=2.0)`, with the
    names that `mercer.params.parameters(kernel)` lists.
    """

    kernel: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; `deep`: and the numbers within the kernel."""
        settings = super().get_params(deep)
        if deep and isinstance(self.kernel, AbstractKernel):
            settings |= {f"{WITHIN}{p.name}": p.value for p in parameters(self.kernel)}
        return settings

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name, or numbers within the kernel."""
        numbers = {name: settings.pop(name) for name in list(settings) if name.startswith(WITHIN)}
        super().set_params(**settings)
        if numbers:
            self.kernel = _with_numbers(self.kernel, numbers)
        return self

    @property
    @abc.abstractmethod
    def _rule(self) -> Any:
        """The inference, as `mercer.Model.condition` takes it; "ccd" or "grid" besides."""

    @property
    def theta_names_(self) -> tuple[str, ...]:
        """Names (p) of the free hyperparameters, as in `summary()`, in the order of `theta_`. Of several
        problems of two classes they begin with the position of the problem.
        """
        fitted(self)
        several = len(self._fits) > 1
        return tuple(
            f"{i}.{name}" if several else name
            for i, found in enumerate(self._fits)
            for name in flatten(found.model).names
        )

    @property
    def theta_(self) -> np.ndarray:
        """The free hyperparameters (p,) as learning moves them: logarithms of those that are positive (as
        theta of scikit-learn), log odds of those between two ends, others as they are.
        """
        fitted(self)
        return np.concatenate([flatten(found.model).vector for found in self._fits])

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> float | tuple[float, np.ndarray]:
        """Log density of the training targets at hyperparameters `theta` (p,), in nats and without priors,
        and with it the gradient (p,) in theta.

        theta: in the order of `theta_names_`; None: those learned, `theta_`

        Of several problems of two classes it is the sum, as `log_marginal_likelihood_`. A rule that only
        draws has no such value, and a solver without derivatives no gradient; an error says so.

        >>> model.theta_names_                                    # ("kernel.lengthscale", ...)
        >>> value, gradient = model.log_marginal_likelihood(model.theta_ + 0.1, eval_gradient=True)
        """
        at = self.theta_ if theta is None else np.asarray(theta, float)
        if at.shape != self.theta_.shape:
            raise ValueError(
                f"theta has shape {at.shape}, but there are {len(self.theta_)} free hyperparameters: "
                f"{', '.join(self.theta_names_) or 'none'}."
            )
        ends = np.cumsum([flatten(found.model).vector.size for found in self._fits])[:-1]
        parts = [
            _evidence(found, self._rule, vector, eval_gradient)
            for found, vector in zip(self._fits, np.split(at, ends), strict=True)
        ]
        total = float(sum(value for value, _ in parts))
        return (total, np.concatenate([gradient for _, gradient in parts])) if eval_gradient else total


def _with_numbers(given: Any, numbers: Mapping[str, Any]) -> AbstractKernel:
    """The kernel with other hyperparameters, by their names as settings."""
    kernel = read_kernel(given)
    if kernel is None:
        raise ValueError(f"{', '.join(numbers)}: there is no kernel to change; give one, kernel=...")
    new = {name.removeprefix(WITHIN): np.asarray(value, float) for name, value in numbers.items()}
    changed = replace_leaves(kernel, new)
    for p in parameters(changed):
        if p.name in new:
            p.constraint.check(new[p.name], f"{WITHIN}{p.name}")
    return changed


def _evidence(found: Fit, inference: Any, vector: np.ndarray, gradient: bool) -> tuple[float, np.ndarray]:
    """Log evidence of the data of one fit at a vector of its free hyperparameters, and its gradient (p,),
    which is zero where it is not asked for.
    """
    integrated = isinstance(inference, str) and inference in INTEGRATED
    rule = site_rule(inference_by_name(None if integrated else inference, found.model.likelihood))
    flat, post = flatten(found.model), found.posterior
    model = flat.unflatten(vector)
    result = rule.run(model, post.inputs.values, post.y, post.solver)
    if not gradient:
        return result.log_evidence, np.zeros_like(vector)
    return result.log_evidence, flat.pull(rule.gradient(model, post.y, result, consume=True), vector)
