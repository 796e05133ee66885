"""The doctor: what it says of this machine, the values it knows, what it says where something is wrong."""

from __future__ import annotations

import decimal
import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mercer.app import doctor
from mercer.app.cli import app


def sine(x: Decimal) -> Decimal:
    term, total, k = x, x, 1
    while abs(term) > Decimal(10) ** -55:
        term *= -x * x / ((k + 1) * (k + 2))
        total, k = total + term, k + 2
    return total


def evidence(lengthscale: Decimal) -> Decimal:
    """-1/2 y' K^-1 y - 1/2 log|K| - n/2 log 2 pi (GPML 2.30) of the data that the doctor takes."""
    x = [Decimal(i) / 2 for i in range(6)]
    L = [[Decimal(0)] * 6 for _ in x]
    z: list[Decimal] = []
    for i, a in enumerate(x):
        for j, b in enumerate(x[: i + 1]):
            cell = (-((a - b) ** 2) / (2 * lengthscale**2)).exp() + (Decimal("0.01") if i == j else 0)
            cell -= sum(L[i][k] * L[j][k] for k in range(j))
            L[i][j] = cell.sqrt() if i == j else cell / L[j][j]
        z.append((sine(a) - sum(L[i][k] * z[k] for k in range(i))) / L[i][i])
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582")
    return -sum(v * v for v in z) / 2 - sum(L[i][i].ln() for i in range(6)) - 3 * (2 * pi).ln()


def test_the_values_it_knows_are_those_of_fifty_digits():
    """By a Cholesky factor in decimal arithmetic, and differences of it."""
    with decimal.localcontext(prec=60):
        step = Decimal(10) ** -15
        slope = (evidence(1 + step) - evidence(1 - step)) / (2 * step)
        assert abs(evidence(Decimal(1)) - Decimal(doctor.EVIDENCE)) < Decimal(10) ** -14
        assert abs(slope - Decimal(doctor.SLOPE)) < Decimal(10) ** -13


@pytest.fixture(scope="module")
def sound():
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["result"]


def test_a_sound_machine(sound):
    assert all(check["right"] for check in sound["checks"])
    assert {check["name"] for check in sound["checks"]} == set(doctor.CHECKS)
    assert sound["Versions"]["jax"].count(".") == 2 and "cpu:0" in sound["Machine"]["JAX devices"]
    assert set(sound["extras"]) == set(doctor.EXTRAS)
    speed = sound["speed"]
    assert speed["gflops"] == pytest.approx(speed["rows"] ** 3 / 3e9 / speed["seconds"])


def test_extras_are_those_of_the_package():
    page = Path(__file__).parents[2] / "pyproject.toml"
    if not page.exists():
        pytest.skip("the extras are listed in a source checkout")
    offered = tomllib.loads(page.read_text())["project"]["optional-dependencies"]
    for extra, modules in doctor.EXTRAS.items():
        brought = {re.split(r"[\[<>=]", package)[0] for package in offered[extra]}
        assert {"distributed": "dask"}.get(modules[-1], modules[-1]) in brought, extra
    for_developers = {"test", "bench", "docs", "forecasting", "optimisation"}
    assert set(offered) - for_developers == set(doctor.EXTRAS)


def test_what_is_wrong_is_told_with_what_to_do(monkeypatch, sound):
    monkeypatch.setattr(doctor, "EVIDENCE", -1.148)
    monkeypatch.setattr(doctor, "EXTRAS", {"parquet": ("nobody_has_this",)})

    def unwritable():
        raise PermissionError(13, "Permission denied", "/cache")

    monkeypatch.setitem(doctor.CHECKS, "cache", unwritable)
    monkeypatch.setattr(doctor, "speed", lambda: sound["speed"])
    told = CliRunner().invoke(app, ["doctor"])
    assert told.exit_code == 1 and "2 of 5 checks failed" in told.stdout
    assert 'pip install "mercer[parquet]"' in told.stdout and "WRONG" in told.stdout
    assert "note: evidence: numbers cannot be trusted" in told.stderr and "note: cache:" in told.stderr
    machine = CliRunner().invoke(app, ["doctor", "--json"])
    document = json.loads(machine.stdout)
    assert machine.exit_code == 1 and document["ok"] is False
    assert [c["name"] for c in document["result"]["checks"] if not c["right"]] == ["evidence", "cache"]
