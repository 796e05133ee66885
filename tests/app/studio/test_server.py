"""The studio on a real server: who gets in, what is refused, and the playground through HTTP."""

from __future__ import annotations

import pytest

from tests.app.serving import ask, running

pytest.importorskip("fastapi", reason='needs the extra: pip install "mercer[studio]"')
pytest.importorskip("uvicorn", reason='needs the extra: pip install "mercer[studio]"')

from mercer.app.studio.server import application

TOKEN = "a-token-of-the-tests"
KEY = {"X-Mercer-Token": TOKEN}
ANSWER = "/api/playground/answer"


@pytest.fixture(scope="module")
def port():
    with running(application(TOKEN, warm=False)) as port:
        yield port


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


def test_the_playground_through_http(port):
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
