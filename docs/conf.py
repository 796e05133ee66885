"""The site. Built without network: `sphinx-build -W --keep-going -b html docs build/site`."""

import os
import posixpath
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import api_pages  # noqa: E402
from api_pages import escaped  # noqa: E402

import mercer  # noqa: E402

project = "Mercer"
author = "The Mercer developers"
copyright = "The Mercer developers; Apache-2.0"
version = release = mercer.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_static"]
nitpicky = False

myst_heading_anchors = 3
default_role = "py:obj"  # `name` in a docstring: a link where it is one of ours, else code
add_module_names = False
python_maximum_signature_line_length = 100
smartquotes = False  # "evidence" is a string
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # `block` and `profile` are explained once, in the abstract class
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Progress": "Progress"}  # said by its name

html_theme = "furo"
html_title = "Mercer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

# -- pages that live outside docs/: each stands here as one `{include}` line ---------------------------------

OUTSIDE = {
    "index": "README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "benchmarks": "benchmarks/README.md",
}


def include(app, docname, source):
    """The text of a page from outside docs/, its links and pictures pointing to where those are here."""
    if docname not in OUTSIDE:
        return
    path = OUTSIDE[docname]
    pages = {f"../{outside}": f"{page}.md" for page, outside in OUTSIDE.items()}

    def relink(link):
        if "://" in link[2]:
            return link[0]
        target = posixpath.relpath(posixpath.join(posixpath.dirname(path), link[2]), "docs")
        return f"{link[1]}({pages.get(target, target)})"

    text = re.sub(r"(\]\s?)\(([^)#\s]+)\)", relink, (HERE.parent / path).read_text(encoding="utf-8"))
    source[0] = re.sub(r"```\{include\}.*?```", lambda _: text, source[0], count=1, flags=re.DOTALL)


# -- the API reference ---------------------------------------------------------------------------------------


def write_api(app):
    """docs/api/ROOM.rst for every room; a file is touched only if it changes."""
    folder, pages = HERE / "api", api_pages.pages()
    folder.mkdir(exist_ok=True)
    for stale in {path.stem for path in folder.glob("*.rst")} - set(pages):
        (folder / f"{stale}.rst").unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def plain(app, what, name, obj, options, lines):
    """Docstrings are plain text with `code`, >>> examples and lines `argument: what it is`, which become a
    list; nothing else in them is markup.
    """
    arguments, learned, out = api_pages.arguments(obj), re.compile(r"[A-Za-z]\w*_"), []
    for paragraph in "\n".join(lines).split("\n\n"):
        kind = ""
        for line in paragraph.split("\n"):
            before, (head, _, rest) = kind, line.partition(": ")
            if line.lstrip().startswith(">>>") or kind == "example":
                kind = "example"
            elif rest and all(name in arguments or learned.fullmatch(name) for name in head.split(", ")):
                kind, line = "list", f"* **{escaped(head)}**: {escaped(rest.strip())}"
            elif kind == "list":
                line = f"  {escaped(line.strip())}"
            else:
                kind, line = "text", escaped(line)
            out += ["", line] if kind != before else [line]
        out.append("")
    lines[:] = out


def skip(app, what, name, obj, skipped, options):
    """scikit-learn adds `set_fit_request` and its like to every estimator: they are explained there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def shorter(app, what, name, obj, options, signature, returns):
    """Every value with hyperparameters takes `info`, which nobody types."""
    return signature and (re.sub(r"(, )?(\*, )?info: tuple\[.*?\] = \(\)", "", signature), returns)


def setup(app):
    app.connect("builder-inited", write_api)
    app.connect("source-read", include)
    app.connect("autodoc-process-docstring", plain)
    app.connect("autodoc-process-signature", shorter)
    app.connect("autodoc-skip-member", skip)
