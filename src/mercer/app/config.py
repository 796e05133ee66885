"""`--config file.toml`: the options of commands, written down. The command line wins.

[fit]
target = "price"
features = ["rooms", "age"]
out = "houses.mercer"

[predict]
level = 0.9
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from mercer.registry import unknown


def apply(context: typer.Context, value: Path | None) -> Path | None:
    """Make what the file says of a command the defaults of its options. What is not understood is an error
    before anything is done.
    """
    if value is not None:
        written = _read(value)
        group = context.parent.command if context.parent is not None else None
        for name, table in written.items():
            _check_table(value, name, table, getattr(group, "commands", {context.info_name: None}))
        if context.info_name not in written:
            has = ", ".join(f"[{name}]" for name in written) or "nothing"
            raise typer.BadParameter(f"{value} has no table [{context.info_name}]; it has {has}.")
        options = {_typed(p): p for p in context.command.params if p.name not in ("config", "help")}
        where = f"{value}, [{context.info_name}]"
        lines = written[context.info_name].items()
        context.default_map = dict(_option(where, name, said, options) for name, said in lines)
    return value


def _typed(parameter: Any) -> str:
    """The name of an option as people type it, without its dashes; of an argument its own."""
    long = [name[2:] for name in parameter.opts if name.startswith("--")]
    return long[0] if long else str(parameter.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: {error}.") from None


def _check_table(path: Path, name: str, table: Any, commands: Mapping[str, Any]) -> None:
    if not isinstance(table, dict):
        raise typer.BadParameter(f"{path}: options stand under their command; {name} = ... under [fit], say.")
    if name not in commands:
        raise typer.BadParameter(f"{path}: {unknown('command', name, commands)}")


def _option(where: str, name: str, said: Any, options: Mapping[str, Any]) -> tuple[str, Any]:
    """The parameter that a line of the file is about, and its value; a list is joined by commas."""
    typed = name.replace("_", "-")
    if typed not in options:
        raise typer.BadParameter(f"{where}: {unknown('option', typed, options)}")
    if isinstance(said, dict):
        raise typer.BadParameter(f"{where}: {name} takes a value, not a table.")
    option = options[typed]
    if getattr(option, "multiple", False):
        return option.name, [str(one) for one in (said if isinstance(said, list) else [said])]
    if isinstance(said, list):
        return option.name, ",".join(map(str, said))
    return option.name, said if isinstance(said, bool) else str(said)
