"""The model server as an ASGI application: `/predict`, `/update`, `/info`, `/health`, `/metrics`, and what
OpenAPI says of them (`/openapi.json`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

import mercer as mc
from mercer.app import web
from mercer.app.server.answers import UPDATE, AbstractServed, served
from mercer.app.server.batches import Batches, answers
from mercer.app.server.metrics import Counted, Metrics
from mercer.app.web import WebError

__all__ = ["Settings", "application", "warm"]

PATHS = ("/predict", "/update", "/info", "/health", "/metrics", "/openapi.json")
WHOLE = 16  # rows of the second prediction before the first request: those have tiles of another size


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a model is served.

    name: what it is called to those who ask
    token: what requests must bring; None: nothing
    update: whether values can be added
    file: where a model that has learned new values is saved, whole or not at all; None: they are lost when
        the server ends, and every answer says so
    rows, body_bytes, seconds, concurrency: of a request: rows, bytes, how long it may take to arrive, and how
        many may be under way
    hosts, origins: as in `web.Guard`
    """

    name: str = "model"
    token: str | None = None
    update: bool = False
    file: Path | None = None
    rows: int = 10_000
    body_bytes: int = 8 * web.MEGABYTE
    seconds: float = 10.0
    concurrency: int = 64
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def application(model: Any, settings: Settings) -> Any:
    """The server of one model."""
    if settings.update and settings.token is None:
        raise ValueError("--update needs a --token: whoever may ask could change the model.")
    first = served(model, settings.rows)
    if settings.update and not first.updates:
        raise ValueError(f"a {type(model).__name__} is not updated: --update is for time series.")
    metrics = Metrics(PATHS, mc.__version__, type(model).__name__)
    batches = Batches(first, counted=metrics.predicted)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        batches.close()

    app = FastAPI(
        title=f"Mercer: {settings.name}",
        version=mc.__version__,
        description="Predictions of a fitted model, with how sure it is.",
        docs_url=None,  # pages that load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    web.answer_errors(app, meant)

    def answer(said: Any) -> Response:
        return Response(web.dumps(said), media_type="application/json")

    @app.post("/predict", openapi_extra=_body(first.schema()), responses=_responses())
    async def predict(request: Request) -> Any:
        """Predictions for rows, or ahead in time."""
        question = batches.served.read(await web.json_body(request))
        found, warned = await batches.ask(question)
        return answer({"predictions": found} | question.options | {"warnings": warned})

    @app.get("/info", responses=_responses())
    async def info() -> Any:
        """What is served: columns, kind, limits."""
        return answer(about(batches.served, settings))

    @app.get("/health")
    async def health() -> Any:
        """Whether it answers."""
        return answer({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def counted() -> Any:
        """What it has done, for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    async def update(request: Request) -> Any:
        """New values of the series; hyperparameters stay as they are."""
        said = await web.json_body(request)
        new, values = await batches.alone(functools.partial(_updated, batches, said, settings))
        metrics.updated(values)
        return answer({"added": values, "persisted": settings.file is not None} | new)

    if settings.update:
        extra = _body({"type": "object", "example": UPDATE})
        app.post("/update", openapi_extra=extra, responses=_responses())(update)
    guard = web.Guard(
        app,
        hosts=settings.hosts,
        origins=settings.origins,
        token=settings.token,
        free=lambda path: path == "/health",
        body_bytes=settings.body_bytes,
        seconds=settings.seconds,
        concurrency=settings.concurrency,
    )
    return Counted(guard, metrics)


def _updated(batches: Batches, said: Any, settings: Settings) -> tuple[dict[str, Any], int]:
    """Between predictions: the model that knows more is saved, and only then takes the other's place."""
    model, values = batches.served.updated(said)
    if settings.file is not None:
        try:
            model.save(settings.file)
        except OSError as error:
            message = f"the model could not be saved ({error.strerror}), and stays as it was."
            raise WebError(507, "not_saved", message) from error
    batches.served = served(model, settings.rows)
    return batches.served.facts(), values


def about(model: AbstractServed, settings: Settings) -> dict[str, Any]:
    """What `/info` answers."""
    columns = [
        {"name": f.name, "kind": f.kind, "may_be_empty": f.empty, "needed": f.needed} for f in model.fields
    ]
    update = "off" if not settings.update else "volatile" if settings.file is None else "saved"
    limits = {"rows": settings.rows, "body_bytes": settings.body_bytes, "concurrency": settings.concurrency}
    return {
        "name": settings.name,
        "estimator": type(model.model).__name__,
        "version": mc.__version__,
        "columns": columns,
        "options": list(model.takes),
        "example": model.example(),
        "update": update,
        "limits": limits,
    } | model.facts()


def meant(error: Exception) -> WebError | None:
    """What an exception of Mercer's says to who asked; None where it is not theirs to know."""
    if isinstance(error, ValueError | TypeError):
        return WebError(422, "refused", " ".join(str(error).split()))
    if isinstance(error, MemoryError):
        return WebError(503, "busy", "there is not enough memory for this.", hint="send fewer rows")
    return None


def warm(model: Any, rows: int) -> None:
    """Answer an example, so that the first request finds everything compiled."""
    kind = served(model, rows)
    example = kind.example()
    for many in (1, WHOLE):
        if "rows" in example:
            example["rows"] = example["rows"][:1] * many
        answers(kind, [kind.read(example)])


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _responses() -> dict[int | str, dict[str, Any]]:
    text = {"type": ["string", "null"]}
    parts = {"type": {"type": "string"}, "message": {"type": "string"}, "column": text, "hint": text}
    parts["row"] = {"type": ["integer", "null"]}
    error = {"type": "object", "properties": {"error": {"type": "object", "properties": parts}}}
    content = {"application/json": {"schema": error}}
    return {
        400: {"description": "The body is not JSON", "content": content},
        401: {"description": "The token is missing or wrong", "content": content},
        413: {"description": "Too large", "content": content},
        422: {"description": "A cell, a column or an option is wrong", "content": content},
        503: {"description": "Too many requests at once", "content": content},
    }
