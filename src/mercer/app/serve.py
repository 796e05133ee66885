"""`mercer serve`: a saved model answers requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercer.app.command import answer_now, command
from mercer.app.console import found, note, say, warnings_as_notes
from mercer.app.options import Save, Saved
from mercer.app.paths import check_inputs, check_outputs

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


@command
def serve(
    model: Saved,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MERCER_TOKEN",
            help="What requests must bring, in the header Authorization: Bearer TOKEN. Better given by the "
            "variable MERCER_TOKEN or by --token-file: others see command lines.",
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token.")] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Let requests add values to a time series; needs a token.")
    ] = False,
    save: Save = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request, at most.")] = 10_000,
    max_megabytes: Annotated[float, typer.Option(min=0.001, help="Size of a request, at most.")] = 8.0,
    read_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a request may take to arrive.")
    ] = 10.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at once, at most.")] = 64,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which the server is asked, besides localhost and addresses; * for any."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A web page that may ask: https://example.org.")
    ] = None,
) -> None:
    """Serve a saved model over HTTP: rows in as JSON, predictions out.

    /predict answers rows, /info says what is asked, /health and /metrics are for machines, /openapi.json
    describes it all. With --update requests may add values to a time series, and --save says where the model
    is saved after each, whole or not at all. Ends with Ctrl-C, after the requests under way.

    Example: mercer serve houses.mercer --port 8080
    """
    from mercer.app import web

    check_inputs([model] if token_file is None else [model, token_file])
    web.needs("serve", "mercer serve")
    if save is not None and not update:
        raise ValueError("--save goes with --update: the model is saved after each.")
    if save is not None:
        check_outputs([save])
    if token_file is not None:
        token = token_file.read_text().strip()
    if token is not None and len(token) < 8:
        raise ValueError("a token has at least 8 characters, such as openssl rand -base64 24 prints.")
    import mercer
    from mercer.app.server.application import Settings, application, warm

    settings = Settings(
        name=model.name,
        token=token,
        update=update,
        file=save,
        rows=max_rows,
        body_bytes=int(max_megabytes * web.MEGABYTE),
        seconds=read_timeout,
        concurrency=concurrency,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
    )
    with web.listen(host, port) as bound:
        with warnings_as_notes():
            loaded = mercer.load(model)
            app = application(loaded, settings)
            warm(loaded, max_rows)
        bound.listen(128)
        address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
        say(f"serving {model.name} at {address} (Ctrl-C ends it)")
        found(address=address)
        if token is None and host not in LOOPBACK:
            note("whoever reaches this address may ask: --token keeps others out.")
        if update and save is None:
            note("values that are added are lost when the server ends: --save keeps them.")
        answer_now()
        web.server(app, connections=8 * concurrency, seconds=read_timeout).run(sockets=[bound])
