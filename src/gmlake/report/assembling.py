"""One file out of many: the page, its style, its scripts, the charting library and the data, with nothing to fetch.

Names from traces reach the page inside packed data only, never as markup, and the page's policy admits no script but
those written here, which it knows by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from typing import Any

from gmlake.report.packing import pack_json

_PAGE = Path(__file__).parent / "page"
_STYLES = ("vendor/uPlot.min.css", "style.css")
_LIBRARY = "vendor/uPlot.iife.min.js"
_SCRIPTS = (
    "format.js",
    "data.js",
    "colours.js",
    "view.js",
    "gestures.js",
    "charts.js",
    "raster.js",
    "map.js",
    "search.js",
    "tables.js",
    "main.js",
)


def assemble(title: str, description: dict[str, Any], columns: dict[str, str]) -> str:
    """The whole page as text."""
    style = "\n".join(_read(name) for name in _STYLES)
    library = _read(_LIBRARY)
    own = "\n".join(_read(name) for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{own}\n}})();\n'
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{packed}</script>'
        for name, packed in {"description": pack_json(description), **columns}.items()
    )
    parts = {
        "title": html.escape(title),
        "policy": html.escape(policy),
        "style": f"<style>{style}</style>",
        "data": data,
        "scripts": f"<script>{library}</script>\n<script>{script}</script>",
    }
    page = _read("page.html")
    for name, text in parts.items():
        head, _, tail = page.partition(f"<!--{name}-->")
        page = f"{head}{text}{tail}"
    return page


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
