"""`mercer control`: learn to act in a world, and show the last run as a moving picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, show_table, warnings_as_notes, wrote
from mercer.app.options import Save, Seed
from mercer.app.paths import check_outputs

OWN = {"mountain-car": "MountainCar", "cart-pole": "CartPole"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(control)


@command
def control(
    world: Annotated[
        str,
        typer.Argument(
            help="mountain-car, cart-pole, or a continuous environment of gymnasium: Pendulum-v1."
        ),
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Runs in which it learns, after random ones.")] = 5,
    horizon: Annotated[int, typer.Option(min=1, help="Steps that are planned ahead.")] = 40,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Of a run, at most.", show_default="horizon")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the last run as a moving picture: .gif, or .html with buttons."),
    ] = None,
    save: Save = None,
) -> None:
    """Learn to act: try, learn what actions do, plan, try again.

    Example: mercer control mountain-car --episodes 5 --out run.gif
    """
    check_outputs([out, save])
    if out is not None and out.suffix.lower() not in (".gif", ".html"):
        raise ValueError(f"a run is drawn as .gif or .html, not {out.name}.")
    import mercer as mc

    env = opened(world)
    with warnings_as_notes():
        controller = mc.control.learn(env, horizon=horizon, episodes=episodes, steps=steps, seed=seed)
        last = controller.run(env, horizon if steps is None else steps, seed=seed)
    runs = [(*told(run), "") for run in controller.episodes] + [(*told(last), "what was learned")]
    everything = [*controller.episodes, last]
    found(world=world, runs=[{"steps": len(r), "return": r.total, "end": r.reason} for r in everything])
    show_table("Runs", ("steps", "return", "end", ""), runs, right=(0, 1))
    if save is not None:
        controller.save(save)
        wrote("model", save, "saved in")
    if out is not None:
        mc.viz.animation(last, out, env.sketch if world in OWN else None, title=world)
        wrote("run", out, "drawn in")


def opened(world: str) -> Any:
    """The world of this name."""
    from mercer import control as worlds

    if world in OWN:
        return worlds.MountainCar() if world == "mountain-car" else worlds.CartPole()
    if "-v" not in world:
        from mercer.registry import unknown

        raise ValueError(unknown("world", world, [*OWN], "a name of gymnasium's, such as Pendulum-v1"))
    return worlds.Gym(world)


def told(run: Any) -> tuple[str, str, str]:
    """An episode in words."""
    return str(len(run)), f"{run.total:.4g}", run.reason
