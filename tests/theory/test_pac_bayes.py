"""PAC-Bayes bounds against golden values."""

import numpy as np
import pytest

from mercer.linalg.analysis import bernoulli_kl
from mercer.theory import inverse_bernoulli_kl, mcallester, seeger

BOUNDS = (
    (0, 0.0302504850, 0.0575894276),
    (50, 0.0487851620, 0.0994024636),
    (500, 0.1505863796, 0.2456744216),
)


@pytest.mark.parametrize(("kl", "tight", "loose"), BOUNDS)
def test_golden_values(kl, tight, loose):
    """B.TH11, B.TH12: the catalogue's R9."""
    assert seeger(0.0187, kl, 5000) == pytest.approx(tight, abs=5e-11)
    assert mcallester(0.0187, kl, 5000) == pytest.approx(loose, abs=5e-11)


def test_the_inverse():
    assert inverse_bernoulli_kl(0.1, 0.05) == pytest.approx(0.2200786011, abs=5e-11)
    assert inverse_bernoulli_kl(0.0, 0.3) == pytest.approx(1 - np.exp(-0.3))
    assert inverse_bernoulli_kl(1.0, 0.3) == 1.0
    for risk, c in ((1e-9, 1e-6), (0.4, 3.0), (0.999, 0.5), (0.2, 0.0)):
        r = inverse_bernoulli_kl(risk, c)
        assert risk <= r <= min(1.0, risk + np.sqrt(c / 2)) + 1e-15
        assert bernoulli_kl(risk, r) == pytest.approx(c, abs=1e-9) or r > 1 - 1e-9
    assert bernoulli_kl(0.1, 0.2) == pytest.approx(0.0366900140, abs=5e-11)


def test_published_bound_implies_its_divergence():
    """Table 7.1's first row: 151.0 nats."""
    assert seeger(0.0187, 151.0, 5000) == pytest.approx(0.076, abs=5e-4)
    assert mcallester(0.0187, 151.0, 5000) == pytest.approx(0.1476, abs=5e-5)


def test_bad_input_is_named():
    for bad in ((1.2, 1.0, 10, 0.1), (0.1, -1.0, 10, 0.1), (0.1, 1.0, 0, 0.1), (0.1, 1.0, 10, 0.0)):
        with pytest.raises(ValueError, match=r"risk|divergence"):
            seeger(*bad)
