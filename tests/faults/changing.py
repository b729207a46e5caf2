"""Changed files: what a seed says is changed in the content of a file.

Bytes, lines and cells, whatever the format; and inside it, where the format has an inside: values of JSON, elements of
XML, members of an archive, columns of Parquet, cells of SQLite.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# One that fits a cell of any format, and none at all.
CELLS = [
    *(b"", b" ", b'"', b'""', b'"""', b"'", b'"a', b'a"b"c', b"\\", b"\\N", b"\0", b"a\0b", b"\x1b[31m", b"\x7f"),
    *(b"\x85", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xe2\x80\xae"),
    *(b"\xcc\x81" * 300, b"\r", b"-1", b"0", b"1", b"00", b"1.5", b"1e400", b"-1e400", b"NaN", b"inf", b"9" * 30),
    *(b"9" * 5_000, b"0x10", b"1_000", b"2147483648", b"9223372036854775808", b"\xd9\xa3", b"\xc2\xb2", b"1,5"),
    *(b"true", b"null", b"None", b"[]", b"{}", b":", b"::", b"HP:", b":1", b"HP:0000001", b"T:1", b"http://["),
    *(b"http://x/%zz#", b"../../etc/passwd", b"/dev/null", b"=1+1", b"@x", b"%", b"%s", b"{0}", b"a|b", b"|", b"||"),
    *(b",", b";", b"\t", b"\n", b"\r\n", b"^", b"!", b"#", b"<", b"&", b"2026-13-45", b"20260101", b"99999999999999"),
    *(b"maps_to", b"exact", b"a" * 5_000, b"\xc3\xa9" * 70_000, b"a" * 1_100_000),
]
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**63, 10**400, float("nan"), float("inf"), "", " ", "x", "\0", "\ud800", "a" * 5_000),
    *([], {}, [None], [[]], [{}], {"": None}, {"id": 1}, ["x", 1], "HP:", "http://[", [[[[1]]]]),
    {"a": {"b": {"c": []}}},
]
JSON, XML, PARQUET, SQLITE, ZIP = b"{[", b"<", b"PAR1", b"SQLite format 3\0", b"PK\x03\x04"
Change = Callable[[bytes, random.Random], bytes]


def changed(content: bytes, rng: random.Random) -> bytes:
    """Return a content with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(_changes(content))(content, rng)
    return content


def _changes(content: bytes) -> Sequence[Change]:
    inside = [change for magic, changes in INSIDE.items() if content.startswith(magic) for change in changes]
    start = content.lstrip()[:1]
    if start and start in JSON:
        inside += [_json, _json, _json]
    if start == XML:
        inside += [_xml, _xml]
    anywhere = [_bytes, _whole]
    return [*inside, *anywhere] if inside and start not in JSON + XML else [*inside, *anywhere, _lines, _cells, _cells]


def _bytes(content: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    end = min(len(content), start + rng.choice((0, 0, 1, 1, 2, 8, 60, 10**9)))
    new = rng.choice((b"", b"", rng.randbytes(rng.choice((1, 1, 4, 40))), rng.choice(CELLS), content[start:end] * 2))
    return content[:start] + new + content[end:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        case 4:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 5:
            rng.shuffle(lines)
        case 6:
            lines[at:at] = [b""] * rng.choice((1, 3))
        case 7:
            lines[at:] = lines[at:] * rng.choice((2, 50))
    return b"\n".join(lines)


def _cells(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    delimiter = max((b"\t", b",", b"|", b"^", b": ", b";"), key=content.count)
    # The header as often as all others.
    at = rng.choice((0, rng.randrange(len(lines))))
    cells = lines[at].split(delimiter)
    place = rng.randrange(len(cells))
    match rng.randrange(7):
        case 0:
            del cells[place]
        case 1:
            cells.insert(place, cells[place])
        case 2:
            other = rng.randrange(len(cells))
            cells[place], cells[other] = cells[other], cells[place]
        case 3:
            cells[place] = b'"' + cells[place]
        case 4:
            further = rng.choice(lines).split(delimiter)
            cells[place] = further[place] if place < len(further) else b""
        case _:
            cells[place] = rng.choice(CELLS)
    lines[at] = delimiter.join(cells)
    return b"\n".join(lines)


def _whole(content: bytes, rng: random.Random) -> bytes:
    match rng.randrange(14):
        case 0:
            return b"\xef\xbb\xbf" + content
        case 1:
            return content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-16-le", "utf-32")))
        case 2:
            return content.decode("utf-8", "replace").encode(rng.choice(("latin-1", "cp1252", "gb18030")), "replace")
        case 3:
            return content.replace(b"\n", b"\r\n")
        case 4:
            return content.replace(b"\r", b"").replace(b"\n", b"\r")
        case 5:
            return gzip.compress(content, 1)
        case 6:
            return gzip.compress(content, 1)[: rng.randint(0, 40)]
        case 7:
            return content[: rng.randint(0, len(content))]
        case 8:
            return content.partition(b"\n")[0] + rng.choice((b"", b"\n", b"\r\n"))
        case 9:
            return content * rng.choice((2, 3))
        case 10:
            return content.decode("utf-8", "replace").encode("utf-8").decode("latin-1").encode()
        case 11:
            return rng.choice(
                (b"", b"\n", b"\0" * 1_000, b"PK\x03\x04", b"\x1f\x8b", b"%PDF-1.4", b"{}", b"[]", b"<a/>", b"PAR1PAR1")
            )
        case 12:
            return content.replace(
                *rng.choice([(b"\t", b","), (b",", b"\t"), (b",", b";"), (b'"', b""), (b'"', b"'"), (b"|", b"\t")])
            )
        case _:
            return rng.randbytes(rng.choice((1, 20, 200)))


def _json(content: bytes, rng: random.Random) -> bytes:
    """Change a value of a JSON document, or of a line of JSON Lines."""
    try:
        return _json_value(content.decode(), rng)
    except (ValueError, RecursionError):
        lines = content.split(b"\n")
        at = rng.randrange(len(lines))
        try:
            lines[at] = _json_value(lines[at].decode(), rng)
        except (ValueError, RecursionError):
            return _bytes(content, rng)
        return b"\n".join(lines)


def _json_value(text: str, rng: random.Random) -> bytes:
    document = [json.loads(text)]
    places = list(_places(document))
    holder, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1:
            other_holder, other_key = rng.choice(places)
            # By its text: else a value might hold itself.
            holder[key] = json.loads(json.dumps(other_holder[other_key]))
        case 2:
            holder[key] = [holder[key]] * rng.choice((1, 2))
        case 3 if isinstance(holder, dict):
            holder[rng.choice(("", "id", "x", key.upper(), key + " "))] = holder.pop(key)
        case 4:
            holder[key] = "DEEP"
        case _:
            holder[key] = rng.choice(VALUES)
    deep = rng.choice(("[" * 500 + "]" * 500, "[" * 100_000 + "]" * 100_000, '{"a":' * 2_000 + "1" + "}" * 2_000))
    written = json.dumps(document[0] if document else None).replace('"DEEP"', deep)
    return written.encode()


def _places(holder: Any) -> Any:
    for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        yield holder, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _xml(content: bytes, rng: random.Random) -> bytes:
    tags = list(re.finditer(rb"<[^>]*>", content))
    if not tags:
        return _bytes(content, rng)
    first, last = sorted(rng.sample(range(len(tags)), 2)) if len(tags) > 1 else (0, 0)
    start, end = tags[first].start(), tags[last].end()
    laughs = b'<!DOCTYPE a [<!ENTITY a "ha">' + b"".join(
        b'<!ENTITY %c "%s">' % (code, b"&%c;" % (code - 1) * 10) for code in range(98, 110)
    )
    match rng.randrange(8):
        case 0:
            return content[:start] + content[tags[first].end() :]
        case 1:
            return content[:start] + content[end:]
        case 2:
            return content[:start] + content[start:end] * rng.choice((2, 20)) + content[end:]
        case 3:
            return content[:start] + b"<x>" * rng.choice((1, 100, 50_000)) + content[start:]
        case 4:
            name = re.match(rb"</?\w*", tags[first][0])
            return content[: start + 1] + b"x" + content[start + len(name[0] if name else b"") :]
        case 5:
            return content[: tags[first].end()] + rng.choice(CELLS) + content[tags[first].end() :]
        case 6:
            head, _, rest = content.partition(b"?>")
            return head + b"?>" + laughs + b"]>" + rest.replace(b"><", b">&m;<", 1)
        case _:
            doctype = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            head, _, rest = content.partition(b"?>")
            return head + b"?>" + doctype + rest.replace(b"</", b"&x;</", 1)


def _zip(content: bytes, rng: random.Random) -> bytes:
    """Change a member of an archive, its name, or leave it out."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError):
        return _bytes(content, rng)
    if not members:
        return _bytes(content, rng)
    name = rng.choice(sorted(members))
    match rng.randrange(6):
        case 0:
            del members[name]
        case 1:
            members[rng.choice(("../x", "/x", name.upper(), name + "x"))] = members.pop(name)
        case _:
            members[name] = changed(members[name], rng)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return made.getvalue()


def _parquet(content: bytes, rng: random.Random) -> bytes:
    """Give a column another type or name, nulls, or take it away."""
    try:
        table = pq.read_table(io.BytesIO(content))
        place = rng.randrange(table.num_columns)
        name, column = table.column_names[place], table.column(place)
        many = len(column)
        new: list[Any] = [
            pa.nulls(many),
            pa.array([None] * many, pa.string()),
            pa.array([rng.choice(VALUES[1:4]) or 0] * many, pa.int64()),
            pa.array([float("nan")] * many),
            pa.array([b"\xff"] * many),
            pa.array([["x", None]] * many),
            pa.array([{"a": 1}] * many),
            pa.array([10**12] * many, pa.timestamp("ms")),
            pa.array([rng.choice(("", "\0", "a" * 100_000, "x\ty\n"))] * many),
            pa.array(["x"] * many).dictionary_encode(),
            pa.array(["x"] * many, pa.large_string()),
        ]
        match rng.randrange(6):
            case 0:
                table = table.remove_column(place)
            case 1:
                table = table.append_column(name, column)
            case 2:
                names = list(table.column_names)
                names[place] = rng.choice(("", name.upper(), name + " ", "a\nb"))
                table = table.rename_columns(names)
            case 3:
                table = table.slice(0, 0)
            case _:
                table = table.set_column(place, name, rng.choice(new))
        made = io.BytesIO()
        pq.write_table(table, made, compression=rng.choice(("snappy", "gzip", "zstd", "none")))
        return made.getvalue()
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return _bytes(content, rng)


def _sqlite(content: bytes, rng: random.Random) -> bytes:
    """Change a cell of a database, or take away or rename a table or a column."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        path.write_bytes(content)
        base = sqlite3.connect(path)
        try:
            base.execute("PRAGMA foreign_keys=OFF")
            tables = sorted(row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type='table'"))
            table = rng.choice(tables)
            column = rng.choice([row[1] for row in base.execute(f'PRAGMA table_info("{table}")')])
            cell = rng.choice(CELLS)
            value: Any = rng.choice((None, cell, cell.decode("utf-8", "replace"), -1, 2**62, 1.5, "{", "[]", "null"))
            some = rng.choice(("", f" WHERE rowid = (SELECT min(rowid) FROM '{table}')"))
            match rng.randrange(6):
                case 0:
                    base.execute(f'DROP TABLE "{table}"')
                case 1:
                    base.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO x')
                case 2:
                    base.execute(f"DELETE FROM '{table}'{some}")
                case 3:
                    base.execute(f"PRAGMA user_version={rng.choice((0, 1, 99, -1))}")
                case _:
                    base.execute(f"UPDATE '{table}' SET \"{column}\" = ?{some}", (value,))
            base.commit()
        except (sqlite3.Error, OverflowError, IndexError):
            return _bytes(content, rng)
        finally:
            base.close()
        return path.read_bytes()


INSIDE: dict[bytes, Sequence[Change]] = {PARQUET: (_parquet, _parquet), SQLITE: (_sqlite, _sqlite), ZIP: (_zip, _zip)}
