"""Filling an index in Qdrant, and taking it from one release to the next; see `qdrant` for what lies where."""

from __future__ import annotations

import base64
import bisect
import hashlib
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import InputError, UsageError
from alphita.index.servers import Change, Content, Probes
from alphita.index.servers._content import check_same, hash_of
from alphita.index.servers._recall import RECALL, Measure

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

VECTOR = "string"
# The point that says which release readers see, and the one that keeps the probes of the loading.
NOW = 0
PROBES = str(uuid.UUID(int=1))
# The release that a string ends with, which has not come yet.
NEVER = 2**31 - 1
NEIGHBOURS = 32
EF_CONSTRUCT = 120
# How many are looked at in a search, the fewest first.
STEPS = (64, 128, 256, 512, 1024, 2048)
# A request of 512 vectors of 1,024 numbers takes some 10 MB; a server takes up to 32.
POINTS_AT_ONCE = 512
IDS_AT_ONCE = 1000
QUERIES_AT_ONCE = 64
SECONDS_BETWEEN_LOOKS = 0.5
KEYWORDS = ("kind", "string", "terms[].source", "terms[].language", "terms[].types")
NUMBERS = ("since", "until")


class Collection(NamedTuple):
    """A collection, by its alias or its own name.

    Attributes:
        client: of the server.
        name: to ask it by.
        generation: drawn anew for each loading.
    """

    client: QdrantClient
    name: str
    generation: str


class Old(NamedTuple):
    """A string that is loaded: its point, and the hashes of its terms."""

    point: str
    hashes: tuple[str, ...]


class Entry(NamedTuple):
    """A string to be loaded: its row, its terms as they are stored, and their hashes."""

    row: int
    string: str
    terms: list[dict[str, Any]]
    hashes: tuple[str, ...]


def load(client: QdrantClient, alias: str, content: Content, release: str, probes: Probes, *, force: bool) -> None:
    """Fill a new collection and turn the alias to it; see `ServerIndex.load`."""
    from qdrant_client import models

    before = {one.alias_name: one.collection_name for one in client.get_aliases().aliases}
    if alias in before and not force:
        raise UsageError(
            f"there is an index {alias.split('_', 1)[1]!r} already; choose another name, 'alphita server update' it, "
            "or --force to replace it"
        )
    # What a loading that was broken off has left.
    for one in client.get_collections().collections:
        if one.name.startswith(f"{alias}__") and one.name not in before.values():
            client.delete_collection(one.name)
    generation = uuid.uuid4().hex
    new = Collection(client, f"{alias}__{generation}", generation)
    try:
        _create(new, int(content.facts["dim"]))
        terms = _write(new, content, (entry for entry in _entries(content)), 1)
        _wait(new)
        measure = Measure(content.vectors, probes())
        search = _calibrate(new, content, measure, 1)
        kept = base64.b64encode(measure.queries.astype("<f2").tobytes()).decode()
        client.upsert(new.name, [_point(PROBES, {"kind": "probes", "float16": kept})], wait=True)
        _record(new, content, release, 1, search, terms)
    except BaseException:
        client.delete_collection(new.name)
        raise
    turned: list[Any] = [
        models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=new.name, alias_name=alias))
    ]
    if alias in before:
        turned.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
    client.update_collection_aliases(turned)
    if alias in before:
        client.delete_collection(before[alias])


def update(loaded: Collection, content: Content, release: str, number: int, facts: dict[str, Any], name: str) -> Change:
    """Write what is new, mark what ends, and let readers see it; see `ServerIndex.update`."""
    check_same(facts, content.facts, name)
    client, new = loaded.client, number + 1
    _clean(loaded, number)
    old = {
        str(point.payload["string"]): Old(str(point.id), tuple(point.payload["hashes"]))
        for point in every(client, loaded.name, visible(number), payload=["string", "hashes"])
        if point.payload
    }
    added = removed = total = strings_added = 0
    ended: list[str] = []

    def changed() -> Iterator[Entry]:
        """Give the strings whose terms changed, and count them on the way."""
        nonlocal added, removed, total, strings_added
        for entry in _entries(content):
            total += len(entry.hashes)
            was = old.pop(entry.string, None)
            if was is not None and was.hashes == entry.hashes:
                continue
            hashes = set(was.hashes) if was else set()
            strings_added += was is None
            added += len(set(entry.hashes) - hashes)
            removed += len(hashes - set(entry.hashes))
            if was is not None:
                ended.append(was.point)
            yield entry

    _write(loaded, content, changed(), new)
    removed += sum(len(one.hashes) for one in old.values())
    ended += [one.point for one in old.values()]
    for start in range(0, len(ended), IDS_AT_ONCE):
        some: list[Any] = list(ended[start : start + IDS_AT_ONCE])
        client.set_payload(loaded.name, {"until": new}, points=some, wait=True)
    _wait(loaded)
    [kept] = client.retrieve(loaded.name, [PROBES], with_payload=True)
    queries = np.frombuffer(base64.b64decode((kept.payload or {})["float16"]), "<f2").astype(np.float32)
    measure = Measure(content.vectors, queries.reshape(-1, content.vectors.shape[1]))
    _record(loaded, content, release, new, _calibrate(loaded, content, measure, new), total)
    return Change(strings_added, len(old), added, removed, total - added)


def drop(client: QdrantClient, alias: str, generation: str) -> None:
    """Remove an alias and its collection."""
    from qdrant_client import models

    client.update_collection_aliases([models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))])
    client.delete_collection(f"{alias}__{generation}")


# --- filters ----------------------------------------------------------------------------------------------------------


def among(key: str, values: Sequence[str]) -> models.FieldCondition:
    """Return the condition that a field, or one of a list, is one of some values."""
    from qdrant_client import models

    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def all_of(*conditions: Any) -> models.Filter:  # noqa: ANN401 - of several kinds
    """Return the filter that all conditions hold."""
    from qdrant_client import models

    return models.Filter(must=list(conditions))


def visible(number: int, *conditions: Any) -> models.Filter:  # noqa: ANN401 - of several kinds
    """Return the filter for the strings of a release that fulfil the conditions."""
    return all_of(_between("since", lte=number), _between("until", gt=number), *conditions)


def _between(key: str, **limits: float) -> models.FieldCondition:
    from qdrant_client import models

    return models.FieldCondition(key=key, range=models.Range(**limits))


def every(
    client: QdrantClient, name: str, condition: models.Filter, payload: list[str] | bool = True
) -> Iterator[models.Record]:
    """Return all points that pass a filter."""
    offset: Any = None
    while True:
        points, offset = client.scroll(
            name, scroll_filter=condition, limit=IDS_AT_ONCE, offset=offset, with_payload=payload
        )
        yield from points
        if offset is None:
            return


# --- writing ----------------------------------------------------------------------------------------------------------


def _create(new: Collection, dim: int) -> None:
    from qdrant_client import models

    vector = models.VectorParams(
        size=dim, distance=models.Distance.COSINE, datatype=models.Datatype.FLOAT16,
        hnsw_config=models.HnswConfigDiff(m=NEIGHBOURS, ef_construct=EF_CONSTRUCT),
    )  # fmt: skip
    new.client.create_collection(new.name, vectors_config={VECTOR: vector})
    for key in KEYWORDS:
        new.client.create_payload_index(new.name, key, models.PayloadSchemaType.KEYWORD)
    for key in NUMBERS:
        new.client.create_payload_index(new.name, key, models.PayloadSchemaType.INTEGER)


def _entries(content: Content) -> Iterator[Entry]:
    """Return all strings with their terms, by row."""
    n = len(content.vectors)
    with progress.bar("Copying strings", total=n, unit="strings") as bar:
        for start in range(0, n, POINTS_AT_ONCE):
            stop = min(start + POINTS_AT_ONCE, n)
            entries = [
                Entry(start + place, string, [], ()) for place, string in enumerate(content.strings(start, stop))
            ]
            hashes: list[list[str]] = [[] for _ in entries]
            for row, term in content.terms(start, stop):
                entry = entries[row - start]
                entry.terms.append({**term._asdict(), "types": list(term.types)})
                hashes[row - start].append(hash_of(entry.string, term).hex())
            for entry, own in zip(entries, hashes, strict=True):
                yield entry._replace(hashes=tuple(own))
            bar.advance(stop - start)


def _write(collection: Collection, content: Content, entries: Iterator[Entry], number: int) -> int:
    """Write the strings of a release; return how many terms they have."""
    from qdrant_client import models

    terms = 0
    points: list[models.PointStruct] = []

    def send() -> None:
        if points:
            collection.client.upsert(collection.name, points, wait=True)
            points.clear()

    for entry in entries:
        key = hashlib.blake2b(f"{number} {entry.string}".encode(), digest_size=16).digest()
        vector = np.asarray(content.vectors[entry.row], np.float32)
        points.append(
            models.PointStruct(
                id=str(uuid.UUID(bytes=key)), vector={VECTOR: vector.tolist()},
                payload={
                    "string": entry.string, "terms": entry.terms, "hashes": list(entry.hashes), "since": number,
                    "until": NEVER,
                },
            )
        )  # fmt: skip
        terms += len(entry.terms)
        if len(points) == POINTS_AT_ONCE:
            send()
    send()
    return terms


def _clean(loaded: Collection, number: int) -> None:
    """Undo an update that was broken off, and delete what ended with the current release or before."""
    from qdrant_client import models

    client, name = loaded.client, loaded.name
    client.delete(name, models.FilterSelector(filter=all_of(_between("since", gt=number))), wait=True)
    ending = all_of(_between("until", gt=number, lt=NEVER))
    client.set_payload(name, {"until": NEVER}, points=models.FilterSelector(filter=ending), wait=True)
    client.delete(name, models.FilterSelector(filter=all_of(_between("until", lte=number))), wait=True)


def _record(
    collection: Collection, content: Content, release: str, number: int, search: dict[str, Any], terms: int
) -> None:
    """Write down a release, and then that readers see it."""
    facts = {**content.facts, **search}
    loaded = datetime.now(UTC).isoformat()
    counts = {"strings": len(content.vectors), "terms": terms}
    known = {"kind": "release", "number": number, "release": release, "loaded": loaded, **counts}
    now = {"kind": "now", "generation": collection.generation, "number": number, "release": release, "facts": facts}
    collection.client.upsert(collection.name, [_point(number, known)], wait=True)
    collection.client.upsert(collection.name, [_point(NOW, now)], wait=True)


def _point(place: int | str, payload: dict[str, Any]) -> models.PointStruct:
    """Return a point without a vector."""
    from qdrant_client import models

    return models.PointStruct(id=place, vector={}, payload=payload)


def _wait(collection: Collection) -> None:
    """Wait until the server has linked what was written."""
    from qdrant_client import models

    while collection.client.get_collection(collection.name).status == models.CollectionStatus.YELLOW:
        time.sleep(SECONDS_BETWEEN_LOOKS)


# --- recall -----------------------------------------------------------------------------------------------------------


def _calibrate(collection: Collection, content: Content, measure: Measure, number: int) -> dict[str, Any]:
    """Return the first step whose recall@1 is enough, with that recall.

    Raises:
        InputError: no step reaches `RECALL`.
    """
    recall = 0.0
    for ef in STEPS:
        recall = measure.recall(_nearest(collection, content, measure.queries, number, ef))
        if recall >= RECALL:
            search = {"ef": ef, "neighbours": NEIGHBOURS, "ef_construct": EF_CONSTRUCT}
            return {"search": search, "recall_at_1": round(recall, 4), "probes": len(measure.queries)}
    raise InputError(
        f"the server finds the nearest string for only {recall:.1%} of {len(measure.queries):,} misspelt strings, even "
        f"with hnsw_ef = {STEPS[-1]}; {RECALL:.0%} are needed",
        remedy="readers see what they saw before; use the embedded index, which compares all or is measured too",
    )


def _nearest(
    collection: Collection, content: Content, queries: NDArray[np.float32], number: int, ef: int
) -> NDArray[np.int64]:
    """Return the row of the string that a search finds for each query, (p,); -1 for none."""
    from qdrant_client import models

    params = models.SearchParams(hnsw_ef=ef)
    rows: list[int] = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        requests = [
            models.QueryRequest(
                query=query, using=VECTOR, filter=visible(number), limit=1, params=params, with_payload=["string"]
            )
            for query in queries[start : start + QUERIES_AT_ONCE].tolist()
        ]
        for answer in collection.client.query_batch_points(collection.name, requests):
            found = [str((point.payload or {})["string"]) for point in answer.points]
            rows += [_row(content, string) for string in found] or [-1]
    return np.array(rows, np.int64)


def _row(content: Content, string: str) -> int:
    """Return the row of a string that is there; they are sorted by bytes."""
    every_row = range(len(content.vectors))
    return bisect.bisect_left(every_row, string.encode(), key=lambda row: content.strings(row, row + 1)[0].encode())
