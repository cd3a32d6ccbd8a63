"""An answer that can be sent: one HTML file with everything in it, and the same figures on a matplotlib axis.

    est.to_html("report.html");  est.plot()
    proportio.report.page({"monday": est, "tuesday": other}, truth=..., model=..., profile=...)

Needs the optional libraries of `pip install 'proportio[report]'`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proportio.report.figures import bland_altman, plot_bandwidth, plot_error, plot_samples, plot_shares
    from proportio.report.render import page

_HOME = {
    **dict.fromkeys(("bland_altman", "plot_bandwidth", "plot_error", "plot_samples", "plot_shares"), "figures"),
    "page": "render",
}

__all__ = ["bland_altman", "page", "plot_bandwidth", "plot_error", "plot_samples", "plot_shares"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'proportio.report' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"proportio.report.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "matplotlib"):
            raise
        raise ImportError(f"the report needs {error.name}: pip install 'proportio[report]'.") from error
    return getattr(module, name)
