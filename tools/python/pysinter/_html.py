"""What notebooks show."""
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def cells(tag: str, row: Sequence[Any]) -> str:
        return "".join(f"<{tag} style='text-align:left'>{escape(str(cell))}</{tag}>" for cell in row)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{cells('th', header)}</tr>{body}</table>"


class Text(str):
    """Text of many lines, which prompts and notebooks show as such."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Facts(dict[str, Any]):
    """Data from the compiler, which prompts and notebooks show with a line for each fact."""

    def __repr__(self) -> str:
        return json.dumps(self, indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
