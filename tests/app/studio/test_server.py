"""The studio on a real server: who gets in, what is refused, and the playground through HTTP."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.app.serving import ask, running

pytest.importorskip("fastapi", reason='needs the extra: pip install "mercer[studio]"')
pytest.importorskip("uvicorn", reason='needs the extra: pip install "mercer[studio]"')

from mercer.app.studio.desk import Desk
from mercer.app.studio.server import application

TOKEN = "a-token-of-the-tests"
KEY = {"X-Mercer-Token": TOKEN}
ANSWER = "/api/playground/answer"
LIMIT = 100_000


@pytest.fixture(scope="module")
def port():
    desk = Desk()
    with running(application(TOKEN, desk, upload_bytes=LIMIT, warm=False)) as port:
        yield port
    assert not desk.folder.exists()


def test_the_token_in_the_address_becomes_a_cookie(port):
    status, _, told = ask(port, f"/?token={TOKEN}")
    assert (status, told["location"]) == (303, "/")
    cookie = told["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    name_and_value = cookie.split(";")[0]
    status, page, told = ask(port, "/", headers={"Cookie": name_and_value})
    assert status == 200 and "<title>Mercer studio</title>" in page and TOKEN not in page
    assert ask(port, "/api/playground/families", headers={"Cookie": name_and_value})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Mercer-Token": "wrong"}, {"Cookie": "mercer_studio_0=wrong"}, {"Cookie": f"other={TOKEN}"},
     {"Cookie": "=;=;\u00ff"}, {"Authorization": "Bearer "}],
)  # fmt: skip
def test_without_the_token_nothing_is_answered(port, headers):
    for path in ("/static/main.js", "/api/playground/families", "/nothing"):
        assert ask(port, path, headers=headers)[0] == 401
    assert ask(port, ANSWER, {}, headers)[0] == 401
    status, text, _ = ask(port, "/", headers=headers)
    assert status == 401 and "mercer studio" in text and "<" not in text
    assert ask(port, "/?token=wrong", headers=headers)[0] == 401
    assert ask(port, f"/api/playground/families?token={TOKEN}", headers=headers)[0] == 401


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"Origin": "https://evil.example"}, 403, "other_origin"),
        ({"Origin": "null"}, 403, "other_origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "other_origin"),
        ({"Host": "evil.example"}, 421, "wrong_host"),
    ],
)
def test_other_pages_and_names_are_refused(port, headers, status, kind):
    found, told, _ = ask(port, ANSWER, {}, KEY | headers)
    assert (found, told["error"]["type"]) == (status, kind)


def test_headers_of_the_page(port):
    _, _, told = ask(port, "/", headers=KEY)
    policy = told["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert told["x-content-type-options"] == "nosniff" and told["referrer-policy"] == "no-referrer"
    assert told["x-frame-options"] == "DENY" and told["cache-control"] == "no-store"


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code(port):
    _, page, _ = ask(port, "/", headers=KEY)
    assert (
        "http://" not in page
        and "https://" not in page
        and "style=" not in page
        and " on" not in page.split("<body>")[0]
    )
    for name, kind in [("main.js", "javascript"), ("studio.css", "css"), ("icon.svg", "svg")]:
        status, _, told = ask(port, f"/static/{name}", headers=KEY)
        assert status == 200 and kind in told["content-type"]


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/static//etc/passwd",
     "/static/..%5cserver.py", "/static/main.js%00", "/static/"],
)  # fmt: skip
def test_only_files_of_the_page_are_sent(port, path):
    status, told, _ = ask(port, path, headers=KEY)
    assert status == 404 and told["error"]["type"] == "not_found"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"points": [[NaN, 1]]}', 400),
        (b'{"points": [[1e999, 1]]}', 422),
        (b'{"points": "many"}', 422),
        (b'{"points": [[1, 2, 3]]}', 422),
        (b'{"surprise": 1}', 422),
        (b"[]", 422),
        (b'{"draws": 10000}', 422),
        (b'{"view": [1, 1]}', 422),
        (b'{"kernel": "SE(l="}', 422),
    ],
)
def test_what_cannot_be_read_is_a_typed_error(port, body, status):
    found, told, _ = ask(port, ANSWER, body, KEY)
    assert found == status and told["error"]["message"]


def test_a_formula_with_tags_comes_back_as_text(port):
    connection_body = b'{"kernel": "<img src=x onerror=alert(1)>"}'
    status, told, headers = ask(port, ANSWER, connection_body, KEY)
    assert status == 422 and "<img" in told["error"]["message"]
    assert headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff"


def test_the_playground_through_http(port, monkeypatch):
    monkeypatch.setattr("mercer.app.studio.playground.PATIENCE", "300s")  # machines are busy at times
    points = [[-1, 0.5], [0.5, -0.3], [2, 1]]
    status, told, _ = ask(port, ANSWER, {"points": points, "kernel": "SE(l=1)", "draws": 2}, KEY)
    assert status == 200 and len(told["mean"]) == len(told["x"]) == 201 and len(told["draws"]) == 2
    status, words, _ = ask(port, "/api/playground/words", {"kernel": "SE(l=1)"}, KEY)
    assert status == 200 and any("smooth" in line for line in words)
    status, learned, _ = ask(port, "/api/playground/learn", {"points": points, "kernel": "SE(l=1)"}, KEY)
    assert status == 200 and learned["evidence"]["total"] >= told["evidence"]["total"]
    status, refused, _ = ask(port, "/api/playground/learn", {"points": points[:1]}, KEY)
    assert status == 422 and "two points" in refused["error"]["message"]


def test_there_is_no_description_of_the_interface_to_strangers(port):
    for path in ("/docs", "/openapi.json", "/redoc"):
        assert ask(port, path, headers=KEY)[0] == 404


# ------------------------------------------------------------------------------------------- the workbench


def test_an_upload_has_a_limit(port):
    name = KEY | {"X-File-Name": "t.csv"}
    status, told, _ = ask(port, "/api/tables", b"a,b\n" + b"1,2\n" * LIMIT, name)
    assert (status, told["error"]["type"]) == (413, "too_large")
    status, told, _ = ask(port, "/api/tables", headers=KEY)
    assert status == 200 and told == {"limit": LIMIT, "tables": []}
    assert ask(port, ANSWER, b" " * 2_000_000, KEY)[0] == 413


@pytest.mark.parametrize("name", ["", "..%2F..%2Fetc%2Fpasswd", "model.mercer", "x.pkl", "t.csv%00.exe"])
def test_only_tables_are_taken(port, name):
    status, told, _ = ask(port, "/api/tables", b"a,b\n1,2\n", KEY | {"X-File-Name": name or "none"})
    assert status == 422 and "must end in" in told["error"]["message"]


@pytest.mark.parametrize("id_", ["0123", "..%2f..%2fetc", "%2e%2e", "log.txt"])
def test_ids_are_looked_up_and_never_opened(port, id_):
    for path in ("model", "report", "predictions", "code", f"predictions/{id_}"):
        assert ask(port, f"/api/runs/{id_}/{path}", headers=KEY)[0] == 404
    assert ask(port, f"/api/runs/{id_}/cancel", b"", KEY)[0] == 404
    assert ask(port, f"/api/runs/{id_}", headers=KEY, method="DELETE")[0] == 404
    assert ask(port, f"/api/tables/{id_}", headers=KEY, method="DELETE")[0] == 404


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({}, "table"),
        ({"table": "t", "target": ""}, "target"),
        ({"table": "t", "target": "y", "folder": "/tmp"}, "folder"),
        ({"table": "t", "target": "y", "task": "magic"}, "task"),
        ({"table": "t", "target": "y", "restarts": 10**9}, "restarts"),
        ({"table": "t", "target": "y", "kernel": "S" * 9000}, "kernel"),
        ({"table": "t", "target": "y"}, "no such table"),
    ],
)
def test_orders_are_checked(port, order, says):
    status, told, _ = ask(port, "/api/runs", order, KEY)
    assert status == 422 and says in told["error"]["message"]


def test_events_need_the_token_too(port):
    assert ask(port, "/api/events")[0] == 401
    assert ask(port, "/api/events", headers=KEY | {"Origin": "https://evil.example"})[0] == 403


@pytest.mark.slow
def test_from_a_file_to_a_report(port):
    """Brought, fitted, watched and taken away, all through HTTP."""
    rows = "".join(f"{i},{(i * 7) % 11},{2 * i + (i * 7) % 11}\n" for i in range(25))
    name = KEY | {"X-File-Name": "n%C3%BC%22%3Cb%3E.csv"}
    status, table, _ = ask(port, "/api/tables", f"x,<b>z</b>,y\n{rows}".encode(), name)
    assert status == 201 and table["name"] == 'nü"<b>.csv' and table["rows"] == 25
    order = {"table": table["id"], "target": "y", "name": "a/../b\r\nc"}
    status, run, _ = ask(port, "/api/runs", order, KEY)
    assert status == 201 and run["status"] in ("queued", "running")
    seen = watched(port, run["id"])
    assert seen[-1]["status"] == "done", seen[-1]["text"]
    assert {"running", "done"} <= {one["status"] for one in seen}
    path = f"/api/runs/{run['id']}"
    status, _, told = ask(port, f"{path}/predictions", headers=KEY)
    assert status == 200 and told["content-disposition"] == 'attachment; filename="a-b-c-predictions.csv"'
    status, page, told = ask(port, f"{path}/report", headers=KEY)
    assert status == 200 and page.startswith("<!DOCTYPE html>") and "<b>z</b>" not in page
    policy = told["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts") and "allow-same-origin" not in policy
    assert "default-src 'none'" in policy and "connect-src" not in policy
    assert told["x-frame-options"] == "SAMEORIGIN" and "content-disposition" not in told
    assert "attachment" in ask(port, f"{path}/report?download=true", headers=KEY)[2]["content-disposition"]
    assert "GPRegressor()" in ask(port, f"{path}/code", headers=KEY)[1]
    assert ask(port, f"{path}/predictions/{table['id']}", b"", KEY)[1]["rows"] == 25
    assert (
        "predicted.csv"
        in ask(port, f"{path}/predictions/{table['id']}", headers=KEY)[2]["content-disposition"]
    )
    assert ask(port, path, headers=KEY, method="DELETE")[0] == 200
    assert ask(port, f"{path}/report", headers=KEY)[0] == 404
    assert ask(port, f"/api/tables/{table['id']}", headers=KEY, method="DELETE")[0] == 200


def watched(port, id_):
    """What is told of a run until it ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/api/events", headers=KEY)
    stream, seen = connection.getresponse(), []
    assert stream.getheader("content-type").startswith("text/event-stream")
    while not seen or seen[-1]["status"] in ("queued", "running"):
        line = stream.readline().decode()
        if line.startswith("data: ") and (told := json.loads(line[6:]))["id"] == id_:
            seen.append(told)
    connection.close()
    return seen
