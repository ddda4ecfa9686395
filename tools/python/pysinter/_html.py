# SPDX-License-Identifier: Apache-2.0
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


def frame(page: str, title: str, height: int) -> str:
    """A whole page inside of a notebook's. It has an origin of its own, so that its scripts see nothing of the notebook."""
    return (f'<iframe srcdoc="{escape(page)}" title="{escape(title)}" sandbox="allow-scripts" width="100%" height="{height}"'
            ' style="border:1px solid #8888"></iframe>')


class Facts(dict[str, Any]):
    """Data from the compiler, which prompts and notebooks show with a line for each fact."""

    def __repr__(self) -> str:
        return json.dumps(self, indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class Why(Facts):
    """What why() tells: prompts show it as Facts, notebooks as tables."""

    def _repr_html_(self) -> str:
        entries = self.get("entries")
        if entries is None:
            return _why(self)
        return "".join(f"<h4>{escape(str(each.get('entry', '')))}</h4>" + _why(each) for each in entries)


def _why(facts: dict[str, Any]) -> str:
    nodes = [facts["a"], facts["b"]]
    text = table(f"{nodes[0]['name']} and {nodes[1]['name']}: {facts['relation']}", ("node", "operator", "what became of it", "kernel"),
                 [(node["name"], node["op"],
                   "; ".join(f"{change['pass']}: {change['became']}" for change in node["changes"])
                   + (f"; gone in {node['gone_in']}" if node["gone_in"] else ""), ", ".join(node["kernels"])) for node in nodes])
    for each in facts.get("boundaries", ()):
        text += table(f"{each['from']} → {each['to']}", ("values", "bytes stored", "bytes read", "why they are apart"),
                      [(", ".join(each["values"]), _bytes(each["bytes_stored"]), _bytes(each["bytes_read"]), each["reason"])])
        text += _decisions(each["decisions"])
    text += _decisions(facts.get("decisions", ()))
    saved = ((facts["bytes"], "bytes"), (facts["launches"], "launches"), (facts["operations_repeated"], "operations repeated"))
    return text + table("one kernel in place of two", [name for _, name in saved], [[_bytes(value) for value, _ in saved]])


def _decisions(decisions: Sequence[dict[str, Any]]) -> str:
    if not decisions:
        return ""
    return table("decisions of passes", ("pass", "from", "to", "fused", "reason"),
                 [(each["pass"], each["producer"], each["consumer"], "yes" if each["fused"] else "no", each["reason"])
                  for each in decisions])


def _bytes(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)
