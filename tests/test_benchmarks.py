"""The benchmarks' own rules: who takes part in what, and which problems are random."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from benchmarks import environments, evaluations, tasks

ALONE = {"robust", "markov"}  # tasks whose modules start the peers' processes themselves


def served(name: str) -> set[str]:
    """The tasks that a peer's worker answers; the worker itself can only be imported beside its library."""
    path = Path(environments.__file__).parent / "peers" / f"{name}.py"
    calls = (
        [c for c in ast.walk(ast.parse(path.read_text())) if isinstance(c, ast.Call)] if path.exists() else []
    )
    return {a.id for c in calls if isinstance(c.func, ast.Name) and c.func.id == "serve" for a in c.args}


@pytest.mark.parametrize("name", environments.PEERS)
def test_a_peer_declares_the_tasks_that_it_serves(name):
    assert set(environments.PEERS[name].tasks) - ALONE == served(name)


def test_a_peer_without_a_task_is_left_out_of_it(monkeypatch, tmp_path):
    """One line of "-" in the table, no error; a peer without its environment is one."""

    class Answers:
        def __init__(self, name):
            assert name in ("mercer", "sklearn")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask(self, task, data):
            return dict(
                seconds=1.0,
                evaluations=9,
                lengthscale=[1.0] * 8,
                variance=1.0,
                noise_variance=0.1,
                versions={},
            )

    monkeypatch.setattr(tasks, "Worker", Answers)
    monkeypatch.setattr(tasks, "installed", lambda name: name != "gpy")
    run = tasks.Run(
        tmp_path, ("sklearn", "celerite2", "numpyro"), quick=True, repeats=1, say=lambda text: None
    )
    outcome = tasks.fit(run)
    assert not outcome.errors
    assert [row["library"] for row in outcome.rows] == ["mercer", "sklearn", "celerite2", "numpyro"]
    assert outcome.rows[-1] == {"library": "numpyro"}
    errors: list[str] = []
    assert tasks.Run(tmp_path, ("gpy", "sklearn")).beside("fit", errors) == ["sklearn"]
    assert len(errors) == 1 and "setup --peers gpy" in errors[0]


@pytest.mark.parametrize("kind", evaluations.KINDS)
def test_random_problems_are_the_same_for_everybody(kind):
    for number in range(5):
        X, y = evaluations.problem(kind, number)
        most = {"series": 240, "HMM": 1000, "mixture": 1000}.get(kind, 150)
        assert 30 <= len(y) == len(X) <= most and np.isfinite(X).all() and np.isfinite(y).all()
        np.testing.assert_array_equal(y, evaluations.problem(kind, number)[1])
        if "classes" in kind:
            assert len(np.unique(y)) == (3 if kind == "three classes" else 2)
