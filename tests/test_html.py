"""Values in notebooks: small, escaped, valid, and as readable as text."""

from __future__ import annotations

import warnings

import html5lib
import numpy as np
import pytest

import mercer as mc
from mercer import html, kernels, likelihoods

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def checked(value):
    """Its HTML, valid and without anything that runs."""
    text = value._repr_html_()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parseFragment(text)
    for element in tree.iter():
        if isinstance(element.tag, str):
            assert element.tag in (
                "DOCUMENT_FRAGMENT",
                "div",
                "strong",
                "pre",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
            )
            assert not any(name.startswith("on") or name in ("src", "href") for name in element.attrib)
    assert len(text) < 20_000 and "color:#000" not in text and "background:#" not in text
    return text, "".join(tree.itertext())


@pytest.fixture(scope="module")
def fitted():
    x = np.linspace(0, 1, 12)
    table = {EVIL: x, "kind": np.array([EVIL, "b"] * 6)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mc.GPRegressor(max_evaluations=3, progress=False).fit(table, np.sin(6 * x))


def test_kernels_models_and_priors():
    kernel = kernels.SE([0.5, 2.0]) + kernels.Periodic(period=1.0)
    text, words = checked(kernel)
    assert str(kernel) in words and "terms.0.lengthscale[1]" in words and "<table" in text
    model = mc.Model(mc.GP(kernel), likelihoods.Gaussian(0.1))
    assert "likelihood.noise_variance" in checked(model)[1]
    assert "lengthscale" in checked(mc.GP(kernel))[1]
    assert repr(kernels.White()) in checked(kernels.White())[1]


def test_posteriors_and_fits(fitted):
    assert "log_evidence" in checked(fitted.posterior_)[1]
    words = checked(fitted.fit_)[1]
    assert "evaluations" in words and "noise_variance" in words
    assert repr(fitted.fit_).startswith("Fit(evidence") and len(repr(fitted.fit_)) < 200


def test_estimators(fitted):
    text, words = checked(fitted)
    assert "<script" not in text and "<img" not in text
    assert "GPRegressor" in words and "lengthscale" in words
    assert checked(mc.GPRegressor())[1].endswith("not fitted yet")
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/plain"] == repr(fitted) and bundle["text/html"] == text
    mixture = mc.GaussianMixture(1, progress=False).fit(np.random.default_rng(0).normal(size=(30, 1)))
    assert "GaussianMixture" in checked(mixture)[1]


def test_display_as_text(fitted):
    import sklearn

    with sklearn.config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()


def test_names_are_escaped():
    shared = kernels.Shared(kernels.SE([1.0, 1.0]), groups=[0, 1], names=[EVIL, "b"])
    text, words = checked(shared)
    assert "<script" not in text and EVIL in words
    assert EVIL in checked(_Card())[1]


class _Card:
    def _repr_html_(self):
        rows = [[EVIL, EVIL]] * 20
        return html.card(EVIL, html.lines(EVIL), html.table([EVIL, "b"], rows))
