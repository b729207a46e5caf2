"""HTML pages that the service writes itself: without scripts, all of it escaped."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fastapi.responses import HTMLResponse

METHODS = ("get", "post", "put", "patch", "delete")
STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "h2{margin-top:2.5rem;border-top:1px solid;padding-top:1rem}code,pre{font-family:ui-monospace,monospace}"
    "pre{overflow:auto;padding:.75rem;border:1px solid}table{border-collapse:collapse}"
    "td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}"
    ".small{font-size:.85rem;margin:.6rem auto}.small h1{font-size:1.1rem;margin:0}.small p{margin:.3rem 0}"
)
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def respond(title: str, body: Sequence[str], frames: Sequence[str] | None = None) -> HTMLResponse:
    """Return a page.

    Args:
        title: as text.
        body: as HTML.
        frames: origins of pages that may show it, small, in a frame; None: it is no page for a frame.
    """
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    start = f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head>"
    html = f"{start}<body class={'page' if frames is None else 'small'}>{''.join(body)}</body></html>"
    framed = " ".join(frames or ()) or "'none'"
    policy = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors {framed}"
    return HTMLResponse(html, headers={"Content-Security-Policy": policy})


def reference(document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return title and body of the page of an OpenAPI document."""
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))} The same for programs: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                parts.append(_operation_html(method, path, operations[method], document))
    return info["title"], parts


def _operation_html(method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    parts.append(f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>")
    rows = [
        (one["name"], one["in"] + (", required" if one.get("required") else ""), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    schema = _schema(operation.get("requestBody", {}), document)
    for name, field in schema.get("properties", {}).items():
        required = ", required" if name in schema.get("required", ()) else ""
        rows.append((name, "body" + required, field.get("description", "")))
    if rows:
        parts += ["<table>", *map(_row, rows), "</table>"]
    for example in schema.get("examples", ()):
        parts.append(f"<pre>{escape(json.dumps(example, indent=1, ensure_ascii=False))}</pre>")
    responses = operation.get("responses", {})
    answers = [(status, "", one.get("description", "")) for status, one in responses.items()]
    fields = _schema(responses.get("200", {}), document).get("properties", {})
    answers += [(name, "200", field.get("description", "")) for name, field in fields.items()]
    parts += ["<details><summary>Answers</summary><table>", *map(_row, answers), "</table></details>"]
    return "".join(parts)


def _row(cells: tuple[str, str, str]) -> str:
    name, kind, text = (escape(str(cell)) for cell in cells)
    return f"<tr><td><code>{name}</code></td><td>{kind}</td><td>{text}</td></tr>"


def _schema(sent: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a body or an answer of JSON, that of its own document if it is a reference."""
    schema: Mapping[str, Any] = sent.get("content", {}).get("application/json", {}).get("schema", {})
    place = schema.get("$ref", "").removeprefix("#/").split("/")
    return functools.reduce(operator.getitem, place, document) if "$ref" in schema else schema
