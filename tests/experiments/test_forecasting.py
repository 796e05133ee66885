"""The table of forecasts: one of its series by the methods that need no peer, and the page they make."""

import pytest

pytestmark = pytest.mark.experiment


def test_airline_passengers_beside_plain_methods(data_dir, tmp_path, monkeypatch):
    """Scores are means over three origins; ours are below those of the season before and of smoothing."""
    from experiments import forecasting

    own = {name: method for name, method in forecasting.METHODS.items() if not method[0]}
    monkeypatch.setattr(forecasting, "METHODS", own)
    monkeypatch.setattr(forecasting, "YEARS", ())
    name = "airline passengers, monthly"
    text = forecasting.run(tmp_path, (name,))
    scores = forecasting.Scores(tmp_path / "forecasting.jsonl")
    found = {method: forecasting._mean(scores, name, method, "mase") for method in own}
    assert found["Mercer"] < min(found["season before"], found["smoothing, own"])
    assert f"| {name} | {found['Mercer']:.3g} |" in text
    assert len(scores.rows) == 3 * len(own)
