"""`mercer studio`: the studio in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.app.command import answer_now, command
from mercer.app.console import found, say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(studio)


@command
def studio(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but 127.0.0.1 lets other machines ask.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on (0: one that is free).")] = 0,
    upload_limit: Annotated[int, typer.Option(min=1, help="Largest table that may be brought, in MB.")] = 200,
    jobs: Annotated[int, typer.Option(min=1, help="How many fits may run at once.")] = 1,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open the studio: a playground for kernels, and a workbench for tables, in the browser.

    Everything stays on this machine. Prints an address with a token that nobody can guess: who has it may
    use the studio. Ctrl-C ends it.

    Example: mercer studio --port 8000 --no-browser
    """
    from mercer.app import web

    web.needs("studio", "mercer studio")
    bound = web.listen(host, port)
    token = web.new_token()
    name, at = bound.getsockname()[:2]
    address = f"http://{f'[{name}]' if ':' in name else name}:{at}/?token={token}"
    from mercer.app.studio.desk import Desk
    from mercer.app.studio.server import application

    bound.listen()  # who asks before the server is up waits
    say(f"the studio is open: {address}\nCtrl-C closes it.")
    found(address=address)
    answer_now()
    if browser:
        import threading
        import webbrowser

        threading.Timer(1.0, webbrowser.open, [address]).start()
    desk = Desk(jobs)
    server = web.server(application(token, desk, at, upload_limit * web.MEGABYTE))
    desk.leaving = lambda: server.should_exit
    try:
        server.run(sockets=[bound])
    finally:
        desk.close()
