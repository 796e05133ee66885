"""Certificates and calibrated intervals: what the experiments count, on the smallest cases, and what their
pages found.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import certificates, conformal

PAGES = Path(__file__).parents[2] / "docs" / "results"


def stored(name):
    return [json.loads(line) for line in (PAGES / f"{name}.jsonl").read_text().splitlines()]


def test_no_certificate_is_violated():
    """B.P4 and the ten tables: test errors lie below their bounds, and the shape is that of the book."""
    runs = stored("certificates")
    tables = [row for row in runs if "table" in row]
    assert {row["table"] for row in tables} == set(certificates.TABLES)
    assert all(row["test"] <= row["vote"] and row["gibbs_test"] <= row["gibbs"] for row in tables)
    generated = [row for row in runs if "problem" in row]
    assert {row["problem"] for row in generated} == set(certificates.PROBLEMS)
    for row in generated:
        assert max(row["gibbs_violated"], row["vote_violated"]) <= certificates.LOOSE * row["draws"]
    digits = {n: [row for row in runs if row.get("digits") == n] for n in certificates.SIZES}
    assert all(len(rows) == 10 for rows in digits.values())
    bounds = [np.mean([row["gibbs"] for row in rows]) for rows in digits.values()]
    assert (np.diff(bounds) < 0).all() and bounds[-1] < 0.11
    assert all(row["test"] <= row["gibbs_test"] <= row["gibbs"] for rows in digits.values() for row in rows)


def test_calibrated_shares_are_the_levels():
    """Twenty sets, three levels: within Monte-Carlo error; the model's own intervals are not."""
    off, own = [], []
    for name in (*conformal.NOISES, *conformal.TABLES):
        rows = [row for row in stored("conformal") if row["data"] == name]
        assert len(rows) == conformal.FITS, name
        shares = np.mean([row["shares"] for row in rows], 0)
        error = np.sqrt(np.mean([row["variances"] for row in rows], 0) / len(rows))
        off += ((shares[:, 1] - conformal.LEVELS) / error).tolist()
        own.append(np.abs(shares[:, 0] - conformal.LEVELS).max())
    off = np.abs(off)
    assert off.size == 60 and off.max() < 4 and np.mean(off < 2) > 0.85
    assert np.sum(np.array(own) > 0.05) >= 8


@pytest.mark.slow
def test_the_smallest_runs():
    counts = certificates.counted("labels by chance", 2)
    assert counts["means"][1] == pytest.approx(0.5, abs=0.05) and counts["gibbs_violated"] <= 2
    found = conformal.covered("Cauchy", 0, 4)
    assert found["trained"] == 200 and np.shape(found["shares"]) == (3, 2)
    assert found["shares"][0][0] > 0.8 and 0.3 < found["shares"][0][1] < 0.7
