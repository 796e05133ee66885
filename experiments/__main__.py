"""python -m experiments NAME [--out FOLDER]: regenerate a published table or figure and print it beside the published one."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import pkgutil

import experiments


def main() -> None:
    names = sorted(m.name for m in pkgutil.iter_modules(experiments.__path__) if not m.name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", nargs="?", choices=names)
    parser.add_argument("--list", action="store_true", help="name the experiments")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("docs/results"),
        help="folder for pictures and tables",
    )
    arguments = parser.parse_args()
    if arguments.list or arguments.name is None:
        for name in names:
            print(
                f"{name:20s} {importlib.import_module(f'experiments.{name}').__doc__.strip().splitlines()[0]}"
            )
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = importlib.import_module(f"experiments.{arguments.name}").run(arguments.out)
    (arguments.out / f"{arguments.name}.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
