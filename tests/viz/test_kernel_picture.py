"""viz.kernel and the gallery. A.R20, D.KA10."""

import importlib.util
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

from mercer import kernels as k
from mercer import viz

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_stationary():
    """The profile, as many functions as asked for, the density: what is drawn is the kernel's."""
    kernel = k.Matern(0.7, 1.3, nu=1.5)
    profile, paths, spectrum = viz.kernel(kernel, samples=4)
    tau, covariance = profile.lines[-1].get_data()
    np.testing.assert_allclose(covariance, kernel(tau[:, None], [[0.0]])[:, 0])
    assert len(paths.lines) == 4
    s, density = spectrum.lines[-1].get_data()
    np.testing.assert_allclose(density, kernel.spectral_density(s))
    assert density[-1] < 0.02 * density[0] and "cycles per unit" in spectrum.get_xlabel()


def test_functions_have_the_right_variance():
    """The functions drawn are of the prior: over many, their variance is the kernel's."""
    x = np.linspace(0, 2, 5)
    _, paths, _ = viz.kernel(k.Wiener(), x, samples=2000, seed=1)
    draws = np.array([line.get_ydata() for line in paths.lines])
    np.testing.assert_allclose(draws.var(0), x, rtol=0.1, atol=1e-12)


def test_repeating():
    """Lines in place of a density."""
    _, _, spectrum = viz.kernel(k.Periodic(2.0))
    frequencies, weights = spectrum.lines[-1].get_data()
    np.testing.assert_allclose(np.array([frequencies, weights]), k.line_spectrum(k.Periodic(2.0)))


def test_not_stationary():
    """The covariance with a few inputs, and the matrix."""
    sections, _, matrix = viz.kernel(k.NeuralNetwork(), at=[-1.0, 0.5])
    assert [text.get_text() for text in sections.get_legend().get_texts()] == ["x′ = -1", "x′ = 0.5"]
    x, covariance = sections.lines[-1].get_data()
    np.testing.assert_allclose(covariance, k.NeuralNetwork()(x[:, None], [[0.5]])[:, 0])
    assert len(matrix.images) == 1


def test_column_of_several():
    """Along one column, the others at zero; with names the kernel need not have met its inputs."""
    profile, _, spectrum = viz.kernel(k.SE([0.5, 2.0]), column=1)
    tau, covariance = profile.lines[-1].get_data()
    np.testing.assert_allclose(covariance, np.exp(-0.5 * (tau / 2.0) ** 2), atol=1e-12)
    assert len(spectrum.lines) == 1
    viz.kernel(k.SE(0.3).on("age") * k.Linear().on("weight"))


def test_no_density():
    """A sum with a constant has power at single frequencies: nothing is drawn there, and it says so."""
    _, _, spectrum = viz.kernel(k.SE() + k.Constant())
    assert spectrum.texts[0].get_text() == "no spectral density"


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: viz.kernel("SE"), TypeError, "draws a kernel, got str"),
        (lambda: viz.kernel(k.Categorical()), ValueError, "not numbers"),
        (lambda: viz.kernel(k.SE(), column=1), ValueError, "column 1 is not one of the kernel's 1"),
        (lambda: viz.kernel(k.SE(), axes=plt.subplots(1, 2)[1]), ValueError, "three panels"),
        (lambda: viz.kernel(k.SE(), np.zeros((4, 2))), ValueError, "one input"),
    ],
)
def test_errors(draw, error, message):
    with pytest.raises(error, match=message):
        draw()


def test_gallery_shows_every_kernel():
    """Every exported kernel, those on strings and of fitted models excepted,
    stands in the gallery with a small picture.
    """
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "tools" / "make_gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    entries = [entry for page in gallery.PAGES.values() for entry in page]
    shown = {type(node).__name__ for _, code, _ in entries for node in _nodes(gallery.kernel_of(code))}
    exported = {
        name
        for name in k.__all__
        if isinstance(cls := getattr(k, name), type) and issubclass(cls, k.AbstractKernel)
    }
    missing = {
        name for name in exported if not name.startswith("Abstract") and not _reads_objects(getattr(k, name))
    } - shown
    # of models, of observations, of pairs, of columns that belong together, and noise
    assert missing == {"Fisher", "Observed", "Preference", "Shared", "TOP", "White"}
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name, code, _ in entries:
        picture = ROOT / "docs" / "images" / "gallery" / f"{name}.png"
        assert f"### `{code}`" in text and picture.stat().st_size < 60_000


def _reads_objects(cls) -> bool:
    """Whether all kernels of the class read strings, trees or other objects."""
    try:
        return cls.reads_objects(object.__new__(cls))
    except AttributeError:  # it depends on the kernels inside
        return False


def _nodes(kernel):
    """A kernel and all inside it."""
    yield kernel
    for value in vars(kernel).values():
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, k.AbstractKernel):
                yield from _nodes(child)
