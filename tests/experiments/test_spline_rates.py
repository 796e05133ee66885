"""The exponents claimed in GPML 7.1.1 and 7.3 for splines and Ornstein-Uhlenbeck processes."""

import pytest
from experiments.spline_rates import rates


@pytest.mark.experiment
def test_exponents_are_the_claimed_ones():
    for what, claimed, measured in rates(widths=(2**12, 2**14), errors=(2**11, 2**13)):
        assert measured == pytest.approx(claimed, rel=0.06), what
