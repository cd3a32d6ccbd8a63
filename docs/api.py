"""The API page of the site, from the docstrings: every public name, its signature and what it says of itself."""

from __future__ import annotations

import inspect
from typing import Any

SECTIONS = {
    "Estimators": ["RFFM", "BBSE", "KMM", "DFM"],
    "Answers": ["Estimate", "correct"],
    "Files and streams": ["scan", "Source", "Sketch", "load", "Monitor"],
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by the site's builder for each page."""
    return markdown + described() if page.file.src_path == "api.md" else markdown


def described() -> str:
    """The sections as Markdown."""
    import proportio as pp

    out = []
    for title, names in SECTIONS.items():
        out.append(f"\n## {title}\n")
        out += [part for name in names for part in _entry(f"pp.{name}", getattr(pp, name), "###")]
    out.append("\n## Feature maps\n")
    out += [
        part
        for name in pp.features.__all__
        for part in _entry(f"pp.features.{name}", getattr(pp.features, name), "###")
    ]
    out.append("\n## scanpy\n")
    out += _entry("pp.tl.estimate", pp.tl.estimate, "###")
    out.append("\n## Errors\n")
    errors = [n for n in pp.__all__ if n.endswith(("Error", "Warning"))]
    out += [f"- `pp.{n}`: {_first(getattr(pp, n))}" for n in errors]
    return "\n".join(out) + "\n"


def _entry(name: str, thing: Any, level: str) -> list[str]:
    """A heading, the signature, the docstring, and the public methods of a class."""
    out = [f"\n{level} `{name}`\n", f"```python\n{name}{_signature(thing)}\n```\n", *_prose(thing)]
    if inspect.isclass(thing):
        methods = [(n, m) for n, m in inspect.getmembers(thing) if not n.startswith("_") and inspect.getdoc(m)]
        ours = [
            (n, m)
            for n, m in methods
            if getattr(inspect.unwrap(_function(m)), "__module__", "").startswith("proportio")
        ]
        for n, m in ours:
            call = "" if isinstance(inspect.getattr_static(thing, n), property) else _signature(_function(m))
            out.append(f"- `.{n}{call}`: {_first(m)}")
    return out


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "func", member)


def _signature(thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kept = [p.replace(annotation=p.empty) for n, p in found.parameters.items() if n != "self"]
    return str(found.replace(parameters=kept, return_annotation=found.empty))


def _prose(thing: Any) -> list[str]:
    """The docstring, its examples as code."""
    out, code = [], []
    for line in (inspect.getdoc(thing) or "").splitlines():
        if line.startswith((">>>", "...")) or (code and line.strip()):
            code.append(line)
            continue
        if code:
            out += ["```pycon", *code, "```"]
            code = []
        out.append(line)
    return [*out, *(["```pycon", *code, "```"] if code else []), ""]


def _first(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
