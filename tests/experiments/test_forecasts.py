"""Held-out tails: the airline passengers and the coal-mining disasters beside naive forecasts."""

import pytest

import mercer as mc

pytestmark = pytest.mark.experiment


@pytest.mark.parametrize(
    ("name", "share"), [("airline passengers, monthly", 0.3), ("coal-mining disasters, yearly", 1.0)]
)
def test_tail_is_forecast_better_than_naively(data_dir, name, share):
    """From one origin, RMSE is below this share of the naive one, NLPD and interval score are lower."""
    from experiments import forecasts

    s = next(s for s in forecasts.series() if s.name == name)
    first = s.y.size - s.tail
    ts = mc.GPTimeSeries(**s.settings).fit(s.stamps[:first], s.y[:first])
    mine = forecasts.scores(forecasts.model_columns(ts, s.stamps[first:], s.y[first:]), s.y[first:])
    naive = forecasts.naive(s.y[:first], s.season, s.tail)
    other = forecasts.scores(forecasts.gaussian_columns(*naive, s.y[first:]), s.y[first:])
    assert mine[0] < share * other[0] and mine[2] < other[2] and mine[3] < other[3]
