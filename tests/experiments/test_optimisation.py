"""The benchmark of Bayesian optimisation: its problems, the designs they share, and what the page says."""

import numpy as np
import pytest

from experiments import optimisation as o

BEST = {
    "Branin": dict(x1=np.pi, x2=2.275),
    "Hartmann-6": dict(x1=0.20169, x2=0.150011, x3=0.476874, x4=0.275332, x5=0.311652, x6=0.6573),
    "Ackley-5": {f"x{i}": 0.0 for i in range(1, 6)},
    "Rosenbrock-4": {f"x{i}": 1.0 for i in range(1, 5)},
    "camel, noisy": dict(x1=0.0898420, x2=-0.7126564),
    "mixed columns": dict(rate=10**-2.5, depth=6, kind="a", share=0.7),
    "constrained": dict(x1=0.19512, x2=0.404667),
}


@pytest.mark.parametrize("name", o.PROBLEMS)
def test_the_optimum_is_the_least_value(name):
    """It is that of the best row, and none of many others has less."""
    problem = o.PROBLEMS[name]
    assert problem.value(**BEST[name]) == pytest.approx(problem.optimum, abs=2e-5)
    assert all(c(**BEST[name]) < 1e-4 for c in problem.constraints)
    rows = problem.design(1, 200)
    fine = [row for row in rows if all(c(**row) <= 0 for c in problem.constraints)]
    assert fine and min(problem.value(**row) for row in fine) > problem.optimum


@pytest.mark.parametrize("name", o.PROBLEMS)
def test_rows_come_back_from_the_cube_with_categories_apart(name):
    problem = o.PROBLEMS[name]
    for row in problem.design(0):
        back = o._from_one_hot(problem, problem.unit(row))
        assert {k: v for k, v in back.items() if not isinstance(v, float)} == {
            k: v for k, v in row.items() if not isinstance(v, float)
        }
        np.testing.assert_allclose(
            [v for v in back.values() if isinstance(v, float)],
            [v for v in row.values() if isinstance(v, float)],
        )
    assert len(o._fixed_features(problem)) == (24 if name == "mixed columns" else 0)


def test_all_methods_of_a_seed_begin_alike():
    first, second = (o.Run(o.PROBLEMS["camel, noisy"], 3) for _ in range(2))
    assert first.rows == second.rows and first.observed == second.observed and len(first.rows) == 6
    assert o.Run(o.PROBLEMS["camel, noisy"], 4).rows != first.rows


def test_verdicts_and_the_page():
    """A method that is ten times better is better; the same numbers are a tie; the page counts both."""
    regret = np.exp(np.random.default_rng(0).standard_normal(12))
    assert o.verdict(0.1 * regret, regret) == "better"
    assert o.verdict(regret, regret) == "tie"
    assert o.verdict(regret, 0.1 * regret) == "worse"
    assert o.verdict(0.1 * regret[:4], regret[:4]) == "too few seeds"
    scores = o.Scores(None)
    for name in o.PROBLEMS:
        for seed, r in enumerate(regret):
            for method, factor in (("Mercer", 0.1), ("Optuna", 1.0)):
                row = {"problem": name, "seed": seed, "method": method, "step": 0.1, "version": "1"}
                scores.rows.append(row | {"regret": [None, *[factor * float(r)] * 49]})
    text = "\n".join(o.page(scores))
    assert "Of 7 problems judged, at least as good as the best of them on 7" in text
    assert "| Branin | better (12) |" in text
