"""Kernel ridge regression (a regularisation network, GPML 6.2.2): the posterior mean of a GP and nothing
else.
"""

from __future__ import annotations

from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.kernels import SE, AbstractKernel
from mercer.relatives.checks import Array, test_inputs, training_data
from mercer.relatives.rkhs import KernelFunction, read_kernel


class KernelRidge(RegressorMixin, BaseEstimator):
    """The function f that minimises |f|^2 / 2 + sum (y_i - f(x_i))^2 / (2 noise_variance), |f| its norm in
    the kernel's Hilbert space (6.19).

    It is the posterior mean of a GP with this kernel and noise variance, about zero; there is no
    uncertainty, and no evidence to choose the numbers by: `mercer.GPRegressor` has both.

    kernel: kernel, str or None. None is `kernels.SE(1.0)`
    noise_variance: float. The weight of the penalty (alpha in scikit-learn's KernelRidge)

    function_: `KernelFunction`, the minimiser. objective_: its value of the above

    >>> KernelRidge(kernels.SE(0.5), noise_variance=0.1).fit(X, y).predict(Xs)
    """

    def __init__(self, kernel: AbstractKernel | str | None = None, noise_variance: float = 1.0):
        self.kernel = kernel
        self.noise_variance = noise_variance

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRidge:
        """Find the minimiser for targets y (n,) at X (n, d): O(n^3)."""
        inputs, targets = training_data(self, X, y)
        if not self.noise_variance > 0:
            raise ValueError(f"noise_variance must be positive, got {self.noise_variance!r}.")
        kernel = SE(1.0) if self.kernel is None else read_kernel(self.kernel, "KernelRidge")
        K = kernel(inputs)
        K[range(len(K)), range(len(K))] += self.noise_variance
        weights = cho_solve(cho_factor(K, lower=True, overwrite_a=True), targets)
        self.function_ = KernelFunction(kernel, inputs, weights)
        self.objective_ = 0.5 * float(targets @ weights)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """f at X (m, d): (m,)."""
        inputs = test_inputs(self, X)
        return self.function_(inputs)
