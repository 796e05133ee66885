"""Draw the gallery of kernels: docs/gallery.md and docs/images/gallery/*.png.

python tools/make_gallery.py [names of pictures to redraw; default all]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from mercer import kernels, viz

DOCS = Path(__file__).parents[1] / "docs"

HEAD = """\
# Gallery of kernels

Every picture is `viz.kernel(kernel)`: on the left the covariance (of a kernel that is not stationary, the covariance with f at a
few inputs), in the middle three functions drawn from it, on the right the spectral density, or the lines of a function that
repeats (of a kernel that is not stationary, its covariance matrix). The words under it are `kernel.describe()`.

The page is made by `python tools/make_gallery.py`. Kernels on strings, on pairs (Preference), on derivatives and integrals (Observed), of fitted models (Fisher, TOP) and
White, which is noise, have no picture. Figures of the book, redrawn, are [on a page of their own](results/book_figures.md).
"""


def slow(X):
    """A length-scale that is long at both ends and short in the middle."""
    return 0.15 + 0.5 * (X[:, 0] / 3) ** 2


def bumps(X):
    """Seven Gaussian bumps."""
    return np.exp(-0.5 * ((X - np.linspace(-3, 3, 7)) / 0.5) ** 2)


def growth(X):
    return np.exp(0.4 * X[:, 0])


def sinh(X):
    return np.sinh(X)


GRAM = np.array([[1.0, 0.6, 0.1, 0.0], [0.6, 1.2, 0.3, 0.1], [0.1, 0.3, 0.8, 0.5], [0.0, 0.1, 0.5, 1.0]])
WIDE, UNIT, TIME = np.linspace(-6, 6, 401), np.linspace(0, 1, 401), np.linspace(0, 3, 401)

# section -> (picture, the kernel as people write it, where to draw it)
PAGES = {
    "Stationary": [
        ("se", "SE(lengthscale=1.0)", None),
        ("matern12", "Matern(nu=0.5)", None),
        ("matern32", "Matern(nu=1.5)", None),
        ("matern52", "Matern(nu=2.5)", None),
        ("rational_quadratic", "RationalQuadratic(alpha=1.0)", WIDE),
        ("gamma_exponential", "GammaExponential(gamma=1.5)", None),
        ("piecewise_polynomial", "PiecewisePolynomial(lengthscale=2.0, q=1)", np.linspace(-4, 4, 401)),
        ("scale_mixture", "LengthscaleMixture(lengthscales=[0.2, 2.0], weights=[0.2, 1.0])", WIDE),
        (
            "spectral_mixture",
            "SpectralMixture(weights=[1.0, 1.0], means=[0.0, 1.0], scales=[0.1, 0.05])",
            WIDE,
        ),
        ("bessel_j", "BesselJ(lengthscale=0.2, nu=1.0)", None),
        ("sinc", "Sinc(lengthscale=0.2)", None),
        ("oscillator", "Oscillator(period=1.0, lengthscale=2.0)", WIDE),
        ("continuous_ar", "ContinuousAR(rates=[1.0, 4.0, 1.5])", WIDE),
        ("fourier_features", "random_fourier_features(SE(1.0), m=10, seed=0)", WIDE),
    ],
    "Repeating": [
        ("periodic", "Periodic(period=2.0, lengthscale=0.8)", None),
        ("periodic_of", "PeriodicOf(Matern(nu=0.5), period=2.0)", None),
        ("periodised", "Periodised(Matern(lengthscale=0.4, nu=1.5), period=2.0)", None),
        ("cosine", "Cosine(lengthscale=0.3)", None),
        ("locally_periodic", "locally_periodic(period=1.0, lengthscale=0.8, decay=3.0)", None),
        ("zero_sum_periodic", "ZeroSumPeriodic(period=2.0, lengthscale=0.8)", None),
        ("seasonal", "Seasonal(period=2.0, lengthscale=0.4, harmonics=6)", None),
    ],
    "Linear models in disguise": [
        ("constant", "Constant(variance=1.0)", None),
        ("linear", "Linear(variance=1.0)", None),
        ("linear_covariance", "LinearCovariance(factor=[[0.8]], bias_variance=1.0)", None),
        ("polynomial", "Polynomial(degree=3, offset=1.0)", np.linspace(-2, 2, 401)),
        ("features", "Features(bumps)", None),
        (
            "varying_coefficients",
            "varying_coefficients(bumps, np.ones(7), SE(lengthscale=1.0))",
            np.linspace(-3, 3, 401),
        ),
    ],
    "Not stationary": [
        ("neural_network", "NeuralNetwork(bias_variance=4.0, weight_variance=25.0)", None),
        ("arc_cosine", "ArcCosine(order=1)", None),
        ("gaussian_network", "GaussianNetwork(width=0.5, spread=1.0)", None),
        ("gibbs", "Gibbs(slow)", None),
        (
            "paciorek_schervish",
            "PaciorekSchervish(Matern(nu=1.5), LogLinear(weights=[0.8], intercept=-1.5))",
            None,
        ),
        (
            "change_point",
            "ChangePoint(SE(1.0), Matern(lengthscale=0.2, nu=1.5), location=0.5, steepness=8.0)",
            None,
        ),
        ("wiener", "Wiener()", TIME),
        ("integrated_wiener", "IntegratedWiener(order=1)", TIME),
        ("integrated_ou", "IntegratedOrnsteinUhlenbeck(lengthscale=0.5)", TIME),
        ("local_linear", "LocalLinear(variance=0.3, level_variance=1.0, slope_variance=0.5)", TIME),
        ("brownian_bridge", "BrownianBridge()", UNIT),
        ("fractional_brownian", "FractionalBrownian(hurst=0.8)", None),
    ],
    "Made of kernels": [
        ("sum", "SE(lengthscale=2.0) + 0.05 * Matern(lengthscale=0.2, nu=0.5)", None),
        ("product", "SE(lengthscale=1.0) * Linear()", None),
        ("scale", "4.0 * (SE(lengthscale=1.0) + Constant(2.0))", None),
        ("power", "Cosine(lengthscale=0.4) ** 2", np.linspace(-3, 3, 401)),
        ("on", "SE(lengthscale=1.0).on(0)", None),
        ("rescale", "Matern(nu=1.5).rescale(growth)", None),
        ("warp", "SE(lengthscale=1.0).warp(sinh)", None),
        ("normalised", "Polynomial(degree=3, offset=1.0).normalised()", None),
        ("blurred", "Blurred(Matern(nu=1.5), width=0.5)", None),
        ("invariant", "Invariant(SE(lengthscale=0.7), [[[1.0]], [[-1.0]]])", None),
        ("additive", "Additive([SE(1.0), SE(0.3)], order=2)", None),
        ("posterior", "PosteriorKernel(SE(lengthscale=1.0), inputs=[[-2.0], [0.0], [0.5]])", None),
    ],
    "Labels and places": [
        ("categorical", "Categorical(correlation=0.3)", ["ant", "bee", "cat", "dog"]),
        (
            "categorical_covariance",
            "CategoricalCovariance(['ant', 'bee', 'cat'], loadings=[[1.0], [0.8], [-0.5]], variances=0.2)",
            ["ant", "bee", "cat"],
        ),
        (
            "graph_matern",
            "GraphMatern(Graph([['ant', 'bee'], ['bee', 'cat'], ['bee', 'dog']]), lengthscale=1.0)",
            ["ant", "bee", "cat", "dog"],
        ),
        (
            "graph_diffusion",
            "GraphDiffusion(Graph([['ant', 'bee'], ['bee', 'cat'], ['bee', 'dog']]), lengthscale=1.0)",
            ["ant", "bee", "cat", "dog"],
        ),
        ("precomputed", "Precomputed(gram)", [0, 1, 2, 3]),
    ],
}


def kernel_of(code: str):
    own = {f.__name__: f for f in (slow, bumps, growth, sinh)} | {"np": np, "gram": GRAM}
    return eval(code, {"__builtins__": {}}, {name: getattr(kernels, name) for name in kernels.__all__} | own)


def picture(kernel, where) -> Image.Image:
    """At 80 dots per inch in 256 colours."""
    if isinstance(where, list):
        figure, ax = plt.subplots(figsize=(3.2, 2.6), layout="constrained")
        cases = np.array(where, dtype=object if kernel.reads_objects() else float)
        image = ax.imshow(kernel(cases[:, None]), cmap="RdBu_r", vmin=-1.5, vmax=1.5)
        ax.set_xticks(range(len(where)), where)
        ax.set_yticks(range(len(where)), where)
        figure.colorbar(image, ax=ax, label="covariance")
    else:
        if where is None and isinstance(kernel, kernels.BesselJ):
            where = np.linspace(-4, 4, 401)
        figure = viz.kernel(kernel, where)[0].figure
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=80)
    plt.close(figure)
    return Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)


def page() -> str:
    parts = [HEAD]
    for section, entries in PAGES.items():
        parts.append(f"\n## {section}\n")
        for name, code, _ in entries:
            words = kernel_of(code).describe().split("\n")[1:]
            parts.append(
                f"\n### `{code}`\n\n![{name}](images/gallery/{name}.png)\n\n```text\n"
                + "\n".join(words)
                + "\n```\n"
            )
    return "".join(parts)


def main(only: list[str]) -> None:
    folder = DOCS / "images" / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    for name, code, where in (entry for entries in PAGES.values() for entry in entries):
        if not only or name in only:
            picture(kernel_of(code), where).save(folder / f"{name}.png", optimize=True)
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
