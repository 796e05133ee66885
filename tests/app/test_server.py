"""The model server, asked from outside: what it answers is what the model says in Python."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from tests.app.serving import ask, running

pytest.importorskip("fastapi", reason='needs the extra: pip install "mercer[serve]"')
pytest.importorskip("uvicorn", reason='needs the extra: pip install "mercer[serve]"')

from mercer.app.server.application import Settings, application, warm
from mercer.app.server.batches import Batches, answers

EVIL = "<script>alert(1)</script>"
TOKEN = "a-token-of-the-tests"


def table(n=40):
    rng = np.random.default_rng(0)
    columns = {
        "rooms": rng.integers(1, 6, n).astype(float),
        "age": np.where(np.arange(n) % 9 == 4, np.nan, rng.uniform(0, 90, n)),
        "kind": rng.choice(["flat", "house", EVIL], n),
        "sold": np.datetime64("2020-01-01") + np.arange(n) * np.timedelta64(9, "D"),
    }
    y = 3 * columns["rooms"] + (columns["kind"] == "house") + 0.01 * np.nan_to_num(columns["age"])
    return columns, y + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def houses():
    X, y = table()
    return mc.GPRegressor(max_evaluations=10, progress=False).fit(X, y)


pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")
ROW = {"rooms": 3, "age": 30.5, "kind": "house", "sold": "2020-06-01"}


@pytest.fixture(scope="module")
def port(houses):
    warm(houses, 100)
    with running(application(houses, Settings(rows=100, body_bytes=100_000))) as port:
        yield port


def as_table(rows):
    columns = {name: [row[name] for row in rows] for name in ROW}
    columns["age"] = [np.nan if a is None else a for a in columns["age"]]
    return columns | {"sold": np.array(columns["sold"], "datetime64[us]")}


def test_predictions_are_those_of_python(port, houses):
    rows = [ROW, ROW | {"rooms": 1, "age": None, "kind": "flat"}]
    body = {"rows": rows, "level": 0.8, "quantiles": [0.1, 0.5, 0.975]}
    status, said, _ = ask(port, "/predict", body)
    assert status == 200 and said["level"] == 0.8 and said["warnings"] == []
    expected = houses.predict_columns(as_table(rows), 0.8)
    for name, column in expected.items():
        assert [row[name] for row in said["predictions"]] == column.tolist()
    quantiles = houses.predict_quantile(as_table(rows), [0.1, 0.5, 0.975])
    assert [list(row["quantiles"].values()) for row in said["predictions"]] == quantiles.tolist()
    assert list(said["predictions"][0]["quantiles"]) == ["0.1", "0.5", "0.975"]
    _, latent, _ = ask(port, "/predict", {"rows": rows, "latent": True})
    assert latent["predictions"][0]["std"] == houses.predict(as_table(rows), True, latent=True)[1][0]


def test_rows_as_lists_and_other_spellings(port):
    _, by_name, _ = ask(port, "/predict", {"rows": [ROW]})
    _, by_order, _ = ask(port, "/predict", {"rows": [[3, 30.5, "house", "2020-06-01"]]})
    as_text = {"rooms": "3", "age": "30.5", "kind": "house", "sold": "2020-06-01T00:00:00Z"}
    _, spelled, _ = ask(port, "/predict", {"rows": [as_text]}, {"Content-Type": "text/plain"})
    assert by_name["predictions"] == by_order["predictions"] == spelled["predictions"]


@pytest.mark.parametrize(
    ("change", "kind", "column"),
    [
        ({"rooms": None}, "empty_cell", "rooms"),
        ({"rooms": "many"}, "wrong_type", "rooms"),
        ({"rooms": [1]}, "wrong_type", "rooms"),
        ({"rooms": {"a": EVIL}}, "wrong_type", "rooms"),
        ({"rooms": "nan"}, "empty_cell", "rooms"),
        ({"rooms": 10**400}, "wrong_type", "rooms"),
        ({"age": "1e999"}, "wrong_type", "age"),
        ({"sold": "yesterday"}, "wrong_type", "sold"),
        ({"sold": 3}, "wrong_type", "sold"),
        ({"kind": [EVIL]}, "wrong_type", "kind"),
    ],
)
def test_wrong_cells_are_named(port, change, kind, column):
    status, said, _ = ask(port, "/predict", {"rows": [ROW, ROW | change]})
    error = said["error"]
    assert (status, error["type"], error["column"], error["row"]) == (422, kind, column, 1)
    assert column in error["message"] and "row 1" in error["message"] and len(error["message"]) < 300


@pytest.mark.parametrize(
    ("body", "status", "kind", "row"),
    [
        ({"rows": [ROW, {k: v for k, v in ROW.items() if k != "kind"}]}, 422, "missing_column", 1),
        ({"rows": [[1, 2]]}, 422, "wrong_length", 0),
        ({"rows": [3]}, 422, "wrong_type", 0),
        ({"rows": []}, 422, "no_rows", None),
        ({"rows": ROW}, 422, "no_rows", None),
        ({}, 422, "no_rows", None),
        ([ROW], 422, "wrong_type", None),
        ({"rows": [ROW] * 101}, 413, "too_many_rows", None),
        ({"rows": [ROW], "level": 1.5}, 422, "out_of_range", None),
        ({"rows": [ROW], "level": "high"}, 422, "wrong_type", None),
        ({"rows": [ROW], "quantiles": 0.5}, 422, "wrong_type", None),
        ({"rows": [ROW], "latent": 1}, 422, "wrong_type", None),
        ({"rows": [ROW], EVIL: 1}, 422, "unknown_option", None),
        (b'{"rows": [{"rooms": NaN}]}', 400, "malformed_json", None),
        (b'{"rows": [', 400, "malformed_json", None),
        (b"[" * 100_000, 400, "malformed_json", None),
        (b" " * 200_000, 413, "too_large", None),
    ],
)
def test_bad_requests(port, body, status, kind, row):
    got, said, headers = ask(port, "/predict", body)
    assert (got, said["error"]["type"], said["error"]["row"]) == (status, kind, row)
    assert headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff"
    assert ask(port, "/health")[:2] == (200, {"status": "ok"})


def test_what_is_new_is_warned_of(port):
    _, said, _ = ask(port, "/predict", {"rows": [ROW | {"kind": "castle", "garden": EVIL, EVIL: 1}]})
    assert any("'castle'" in w and "not seen" in w for w in said["warnings"])
    assert any("ignored" in w and "garden" in w for w in said["warnings"])
    _, quiet, _ = ask(port, "/predict", {"rows": [ROW]})
    assert quiet["warnings"] == []


def test_no_tag_leaves_the_server(port):
    import http.client

    for path, body in (("/info", None), ("/openapi.json", None), ("/predict", b'{"<b>": 1}')):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET" if body is None else "POST", path, body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.headers["content-type"] == "application/json"
        assert b"<" not in content or path == "/openapi.json"  # JSON all the same, which nobody sniffs
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_info_and_openapi(port):
    _, info, _ = ask(port, "/info")
    assert [c["name"] for c in info["columns"]] == list(ROW)
    assert [c["kind"] for c in info["columns"]] == ["number", "number", "category", "date"]
    assert [c["may_be_empty"] for c in info["columns"]] == [False, True, True, False]
    assert info["estimator"] == "GPRegressor" and info["training_rows"] == 40 and info["update"] == "off"
    assert ask(port, "/predict", info["example"])[0] == 200
    _, api, _ = ask(port, "/openapi.json")
    assert api["openapi"].startswith("3.1") and set(api["paths"]) == {
        "/predict",
        "/info",
        "/health",
        "/metrics",
    }
    schema = api["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    row = schema["properties"]["rows"]["items"]["anyOf"][0]
    assert row["properties"]["rooms"] == {"type": "number"} and row["required"] == list(ROW)
    assert "422" in api["paths"]["/predict"]["post"]["responses"]


def test_metrics(port):
    def read():
        status, text, headers = ask(port, "/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [-+0-9.e]+', line) for line in lines)
        return {key: float(value) for key, value in (line.rsplit(" ", 1) for line in lines)}

    before = read()
    ask(port, "/predict", {"rows": [ROW, ROW]})
    ask(port, "/predict", b"{")
    ask(port, "/secret/of/mine")
    after = read()
    grown = {key: after[key] - before.get(key, 0.0) for key in after}
    assert grown["mercer_predicted_rows_total"] == 2
    assert grown['mercer_requests_total{method="POST",path="/predict",status="200"}'] == 1
    assert grown['mercer_requests_total{method="POST",path="/predict",status="400"}'] == 1
    assert grown['mercer_requests_total{method="GET",path="other",status="404"}'] == 1
    assert (
        grown["mercer_predict_seconds_count"] == 2 and grown['mercer_predict_seconds_bucket{le="+Inf"}'] == 2
    )
    assert after["process_resident_memory_bytes"] > 1e7
    assert not any("secret" in key for key in after)


def test_requests_that_come_together_are_one_prediction(houses):
    from mercer.app.server.answers import served

    kind = served(houses, 100)
    asked = [kind.read({"rows": [ROW | {"rooms": r}] * (1 + r % 2)}) for r in range(1, 6)]
    other = kind.read({"rows": [ROW], "level": 0.5})
    sizes = []

    async def run():
        import asyncio

        batches = Batches(kind, counted=lambda questions, rows: sizes.append((questions, rows)))
        found = await asyncio.gather(*[batches.ask(question) for question in [*asked, other]])
        batches.close()
        return found

    import asyncio

    together = asyncio.run(run())
    assert sizes == [(5, 8), (1, 1)]
    for question, (found, warned) in zip([*asked, other], together, strict=True):
        ((alone, _),) = answers(kind, [question])
        assert warned == [] and len(found) == question.count
        for row, same in zip(found, alone, strict=True):
            np.testing.assert_allclose(list(row.values()), list(same.values()), rtol=1e-9)


def test_one_that_fails_does_not_spoil_the_others(houses):
    from mercer.app.server.answers import served

    kind = served(houses, 100)
    fine, strange = kind.read({"rows": [ROW]}), kind.read({"rows": [ROW | {"kind": "castle"}]})
    broken = dataclasses.replace(
        fine, rows=dataclasses.replace(fine.rows, columns=fine.rows.columns | {"rooms": np.array([np.inf])})
    )
    one, two, three = answers(kind, [fine, strange, broken])
    assert one[1] == [] and "castle" in two[1][0] and isinstance(three, ValueError)


def test_many_at_once(port, houses):
    expected = {r: houses.predict_columns(as_table([ROW | {"rooms": r}]))["mean"][0] for r in range(1, 6)}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = [{"rows": [ROW | {"rooms": 1 + i % 5}]} for i in range(60)]
        found = list(pool.map(lambda body: ask(port, "/predict", body), bodies))
    for i, (status, said, _) in enumerate(found):
        assert status == 200
        assert said["predictions"][0]["mean"] == pytest.approx(expected[1 + i % 5], rel=1e-9)


# -- other kinds of models ---------------------------------------------------------------------------------


def questions(model, *bodies, **settings):
    with running(application(model, Settings(rows=50, **settings))) as port:
        return [ask(port, "/predict", body) for body in bodies]


def test_classes():
    rng = np.random.default_rng(1)
    X = {"x": rng.normal(size=30), "z": rng.normal(size=30)}
    labels = np.where(X["x"] > 0, EVIL, "calm")
    model = mc.GPClassifier(max_evaluations=10, progress=False).fit(X, labels)
    ((status, said, _),) = questions(model, {"rows": [{"x": 1.5, "z": 0.0}]})
    p = model.predict_proba({"x": [1.5], "z": [0.0]})[0]
    assert status == 200 and said["predictions"][0]["class"] == EVIL
    assert said["predictions"][0]["probabilities"] == dict(
        zip(model.classes_.tolist(), p.tolist(), strict=True)
    )


def test_without_names():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 2))
    model = mc.GPRegressor(max_evaluations=5, progress=False).fit(X, X[:, 0])
    lists, names, wrong = questions(
        model, {"rows": [[0.1, 0.2]]}, {"rows": [{"x0": 0.1, "x1": 0.2}]}, {"rows": [[1, 2, 3]]}
    )
    assert (
        lists[1]["predictions"][0]["mean"]
        == names[1]["predictions"][0]["mean"]
        == model.predict([[0.1, 0.2]])[0]
    )
    assert wrong[1]["error"]["type"] == "wrong_length"


def test_several_outputs():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 1))
    Y = {"rent": X[:, 0], "price": -X[:, 0] + 0.1 * rng.normal(size=20)}
    model = mc.GPRegressor(max_evaluations=5, progress=False).fit({"x": X[:, 0]}, Y)
    ((status, said, _),) = questions(model, {"rows": [{"x": 0.3}, {"x": 0.4}], "quantiles": [0.5]})
    mean, std = model.predict({"x": [0.3, 0.4]}, return_std=True)
    assert status == 200 and list(said["predictions"][0]) == ["rent", "price"]
    assert [p["price"]["mean"] for p in said["predictions"]] == mean[:, 1].tolist()
    assert said["predictions"][1]["rent"]["std"] == std[1, 0]
    median = said["predictions"][0]["price"]["quantiles"]["0.5"]
    assert median == pytest.approx(mean[0, 1], rel=1e-6)


def test_clusters_states_and_places():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(-3, 1, (20, 2)), rng.normal(3, 1, (20, 2))])
    mixture = mc.GaussianMixture(2, progress=False).fit(pd.DataFrame(X, columns=["a", "b"]))
    ((status, said, _),) = questions(mixture, {"rows": [{"a": -3, "b": -3}, {"a": 3, "b": 3}]})
    one, two = said["predictions"]
    assert status == 200 and one["component"] != two["component"] and max(one["probabilities"]) > 0.99
    hmm = mc.HMM(2, progress=False).fit(X)
    ((status, said, _),) = questions(hmm, {"rows": X[15:25].tolist()})
    assert status == 200 and [p["state"] for p in said["predictions"]] == hmm.predict(X[15:25]).tolist()
    coin = mc.HMM(2, emission="categorical", progress=False).fit(np.array([0, 1, 0, 0, 1, 1] * 5))
    ((status, said, _),) = questions(coin, {"rows": [[0], [1], [1]]})
    assert status == 200 and len(said["predictions"]) == 3


PLAIN = {"integrate": False, "progress": False, "seasonal": None, "trend": "level", "irregular": False}


def test_forecasts_and_updates(tmp_path):
    t = np.datetime64("2020-01", "M") + np.arange(48)
    y = 10 + np.sin(2 * np.pi * np.arange(48) / 12) + 0.1 * np.random.default_rng(5).normal(size=48)
    model = mc.GPTimeSeries(max_evaluations=5, **PLAIN).fit(t[:40].astype("datetime64[s]"), y[:40])
    path = tmp_path / "series.mercer"
    model.save(path)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    settings = Settings(rows=50, token=TOKEN, update=True, file=path)
    with running(application(mc.load(path), settings)) as port:
        assert ask(port, "/predict", {"horizon": 3})[0] == 401
        _, before, _ = ask(port, "/predict", {"horizon": 3, "level": 0.9}, bearer)
        _, columns = model.forecast_columns(3, 0.9)
        assert [p["mean"] for p in before["predictions"]] == pytest.approx(columns["mean"].tolist(), rel=1e-9)
        assert before["predictions"][0]["time"] == "2023-05-01"
        _, at, _ = ask(port, "/predict", {"times": ["2023-05-01", "2023-06-01"], "level": 0.9}, bearer)
        assert at["predictions"] == before["predictions"][:2]
        new = {"times": [str(s) + "-01" for s in t[40:44]], "values": [*y[40:43].tolist(), None]}
        assert ask(port, "/update", new)[0] == 401
        status, said, _ = ask(port, "/update", new, bearer)
        assert status == 200 and said["added"] == 4 and said["persisted"] and said["last"] == "2023-08-01"
        _, after, _ = ask(port, "/predict", {"horizon": 1}, bearer)
        assert after["predictions"][0]["time"] == "2023-09-01"
        for bad, kind in (
            ({"times": ["x"], "values": [1]}, "wrong_type"),
            ({"times": ["2024-01-01"], "values": [1, 2]}, "wrong_length"),
            ({"times": ["2024-01-01"], "values": ["a"]}, "wrong_type"),
            ({"values": [1]}, "wrong_type"),
            ([], "wrong_type"),
        ):
            status, said, _ = ask(port, "/update", bad, bearer)
            assert (status, said["error"]["type"]) == (422, kind)
        for bad, kind in (
            ({"horizon": 0}, "out_of_range"),
            ({"horizon": 10**9}, "out_of_range"),
            ({"horizon": "1000000d"}, "out_of_range"),
            ({"horizon": [1]}, "wrong_type"),
            ({"horizon": "soon"}, "refused"),
            ({}, "missing_option"),
        ):
            status, said, _ = ask(port, "/predict", bad, bearer)
            assert (status, said["error"]["type"]) == (422, kind), said
    again = mc.load(path).forecast_columns(1)
    assert again[1]["mean"][0] == pytest.approx(after["predictions"][0]["mean"], rel=1e-6)


def test_updates_are_off_unless_asked_for(houses):
    with pytest.raises(ValueError, match="--update needs a --token"):
        application(houses, Settings(update=True))
    with pytest.raises(ValueError, match="not updated"):
        application(houses, Settings(update=True, token=TOKEN))
    with running(application(houses, Settings(token=TOKEN))) as port:
        assert ask(port, "/update", {}, {"Authorization": f"Bearer {TOKEN}"})[0] == 404


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_other_kinds():
    """Every kind of model that files hold answers its own example, as Python does."""
    from mercer.app.server.answers import served

    rng = np.random.default_rng(6)
    x = np.sort(rng.uniform(0, 10, 40))
    t = np.arange(40.0)
    quiet = {"progress": False}
    kinds = {
        "GPIntensity": mc.GPIntensity(**quiet).fit(x),
        "GPDensity": mc.GPDensity(**quiet).fit(x),
        "GPMixture": mc.GPMixture(2, max_evaluations=5, **quiet).fit(x[:, None], np.sin(x)),
        "BayesianGaussianMixture": mc.BayesianGaussianMixture(2, **quiet).fit(x[:, None]),
        "BayesianHMM": mc.BayesianHMM(2, **quiet).fit(x[:, None]),
        "GPLVM": mc.GPLVM(1, max_evaluations=20, **quiet).fit(rng.normal(size=(15, 3))),
        "GTM": mc.GTM(**quiet).fit(rng.normal(size=(30, 3))),
        "GPPanel": mc.GPPanel(**{k: v for k, v in PLAIN.items() if k != "integrate"}).fit(
            {"time": t, "a": np.sin(t), "b": np.cos(t)}, time="time"
        ),
    }
    for name, model in kinds.items():
        kind = served(model, 50)
        question = kind.read(kind.example())
        (found,) = answers(kind, [question])
        assert not isinstance(found, BaseException), (name, found)
        assert len(found[0]) >= 1 and name == type(model).__name__
        assert application(model, Settings()) is not None
    lower, upper = kinds["GPIntensity"].predict_interval([[5.0]], 0.9)
    ((found, _),) = answers(
        served(kinds["GPIntensity"], 9),
        [served(kinds["GPIntensity"], 9).read({"rows": [[5.0]], "level": 0.9})],
    )
    assert found[0] == {
        "mean": kinds["GPIntensity"].predict([[5.0]])[0],
        "lower": lower[0],
        "upper": upper[0],
    }
