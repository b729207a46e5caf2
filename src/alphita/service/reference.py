"""The OpenAPI document as a page: written here, so that it needs no script and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "h2{margin-top:2.5rem;border-top:1px solid;padding-top:1rem}code,pre{font-family:ui-monospace,monospace}"
    "pre{overflow:auto;padding:.75rem;border:1px solid}table{border-collapse:collapse}"
    "td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}"
)
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'"


def page(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document, as HTML."""
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))} The same for programs: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                parts.append(_operation(method, path, operations[method], document))
    title = escape(info["title"])
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{title}</title>"
    return f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"


def _operation(method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    parts.append(f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>")
    rows = [
        (one["name"], one["in"] + (", required" if one.get("required") else ""), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    schema = _resolved(body, document)
    for name, field in schema.get("properties", {}).items():
        required = ", required" if name in schema.get("required", ()) else ""
        rows.append((name, "body" + required, field.get("description", "")))
    if rows:
        parts.append("<table>" + "".join(_row(row) for row in rows) + "</table>")
    for example in schema.get("examples", ()):
        parts.append(f"<pre>{escape(json.dumps(example, indent=1, ensure_ascii=False))}</pre>")
    answers = [(status, "", one.get("description", "")) for status, one in operation.get("responses", {}).items()]
    parts.append("<details><summary>Answers</summary><table>" + "".join(_row(row) for row in answers))
    answer = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    fields = _resolved(answer, document).get("properties", {})
    parts.append("".join(_row((name, "200", field.get("description", ""))) for name, field in fields.items()))
    return "".join([*parts, "</table></details>"])


def _row(cells: tuple[str, str, str]) -> str:
    name, kind, text = (escape(str(cell)) for cell in cells)
    return f"<tr><td><code>{name}</code></td><td>{kind}</td><td>{text}</td></tr>"


def _resolved(schema: Mapping[str, Any] | None, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, that of its own document if it is a reference."""
    if not schema:
        return {}
    if "$ref" not in schema:
        return schema
    found: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: Mapping[str, Any] = found
    return resolved
