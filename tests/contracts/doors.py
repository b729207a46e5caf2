"""The same mentions by every door: command line, Python, data frames, REST, FHIR, the review page, the demo, spaCy.

Where the terminology does not know SOB, the doors that read files do all the same, for "shortness of breath (SOB)" in
one row defines it for all; so do the review and FHIR, which give what the command line wrote. `normalizer.prepare`
tells a normaliser of such definitions.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from tests.contracts.door_answers import Answer, answer, fields_of, of_fhir, of_results

# Twenty strings that some door might read in its own way.
MENTIONS: dict[str, str] = {
    "misspelt": "siezures",
    "doubled blanks": "chest   pain",
    "capitals and a full stop": "HEADACHE.",
    "blanks alone": "  ",
    "a dash alone": "-",
    "tab, newline, quotes, comma": 'fever,\t"high"\nsince Monday',
    "ï and ß": "naïve, großer headache",
    "full-width letters": "Ｎａｕｓｅａ",
    "combining accents": "Me\u0301nie\u0300re disease",
    "emoji": "vomiting 🤮",
    "3,000 letters": ("abdominal pain and swelling " * 108)[:3000],
    "abbreviation": "SOB",
    "defines its abbreviation": "shortness of breath (SOB)",
    "names nothing": "broken tv remote",
    "two findings": "nausea and vomiting with fever",
    "number alone": "120",
    "names two concepts": "cold",
    "negated": "no fever",
    "HTML and SQL": "<b>rash</b>'); DROP TABLE mapping;--",
    "right to left": "צהבת jaundice",
}
# Longer than a server takes by default.
MAX_CHARACTERS = 4_000
SOURCE, PROJECT, SYSTEM = "DOORS", "doors", "urn:alphita:source:DOORS"


class Asked:
    """Mentions and options, which every door is asked with; each of its methods that `DOORS` names is one door."""

    def __init__(self, to: str, mentions: Sequence[str], folder: Path, *, top_k: int = 1, **options: float) -> None:
        """Ask for mentions.

        Args:
            to: what to answer with, as for `alphita.load`.
            mentions: n distinct strings.
            folder: for files; empty.
            top_k: candidates wanted.
            **options: the allowed errors.
        """
        self.to, self.mentions, self.folder, self.top_k = to, list(mentions), folder, top_k
        self.options: dict[str, Any] = options

    def csv(self) -> list[Answer | None]:
        """Normalise CSV to CSV."""
        with open(self.answered_csv, encoding="utf-8", newline="") as file:
            return self._first(csv.DictReader(file))

    def json_lines(self) -> list[Answer | None]:
        """Normalise JSON Lines to JSON Lines."""
        given, out = self.folder / "in.jsonl", self.folder / "out.jsonl"
        given.write_text("".join(json.dumps({"mention": one}) + "\n" for one in self.mentions), encoding="utf-8")
        self._normalize(given, "-o", out)
        return self._first(map(json.loads, out.read_text(encoding="utf-8").splitlines()))

    def processes(self) -> list[Answer | None]:
        """Normalise Parquet by processes."""
        import polars as pl

        given, out = self.folder / "in.parquet", self.folder / "out"
        pl.DataFrame({"mention": self.mentions}).write_parquet(given)
        self._normalize(given, "-o", out, "--engine", "processes", "--workers", 1)
        return self._first(pl.read_parquet(out / "part-*.parquet").iter_rows(named=True))

    def normalize(self) -> list[Answer | None]:
        """Ask `alphita.normalize` for a list."""
        import alphita

        return of_results(alphita.normalize(self.mentions, self.to, top_k=self.top_k, **self.options))

    def one_at_a_time(self) -> list[Answer | None]:
        """Ask `alphita.load(TO).normalize` for one mention after the other."""
        return of_results(self.normalizer.normalize([one], top_k=self.top_k)[0] for one in self.mentions)

    def stream(self) -> list[Answer | None]:
        """Ask `normalize_iter`, three mentions read ahead."""
        from alphita.integrations.frames import normalize_iter

        return of_results(normalize_iter(iter(self.mentions), self.normalizer, batch_size=3, top_k=self.top_k))

    def polars(self) -> list[Answer | None]:
        """Ask `alphita.normalize` for a column of polars."""
        import polars as pl

        import alphita

        frame = pl.DataFrame({"row": range(1, len(self.mentions) + 1), "text": self.mentions})
        found = alphita.normalize(frame, self.to, column="text", top_k=self.top_k, **self.options)
        return self._first(found.iter_rows(named=True))

    def pandas(self) -> list[Answer | None]:
        """Ask `alphita.normalize` for a series of pandas."""
        import pandas as pd

        import alphita

        series = pd.Series(self.mentions, index=range(1, len(self.mentions) + 1))
        found = alphita.normalize(series, self.to, top_k=self.top_k, **self.options)
        rows = found.astype(object).where(found.notna(), None).to_dict("records")
        return self._first({"row": row, **one} for row, one in zip(found.index, rows, strict=True))

    def spacy(self) -> list[Answer | None]:
        """Let the spaCy component look up spans, each a doc of its own."""
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe("alphita", config={"to": self.to, "top_k": self.top_k, "spans_key": "asked", **self.options})
        docs = [nlp.make_doc(one) for one in self.mentions]
        for doc in docs:
            doc.spans["asked"] = [doc[:]]
        return of_results(doc.spans["asked"][0]._.alphita for doc in nlp.pipe(docs))

    def rest(self) -> list[Answer | None]:
        """POST /normalize with all mentions."""
        with self._client() as client:
            return self._posted(client, self.mentions)

    def rest_one_at_a_time(self) -> list[Answer | None]:
        """POST /normalize with one mention after the other."""
        with self._client() as client:
            return [self._posted(client, [one])[0] for one in self.mentions]

    def fhir_r4(self) -> list[Answer | None]:
        """Ask $translate of FHIR R4, once a person has accepted what the command line wrote."""
        return self._translated("r4")

    def fhir_r5(self) -> list[Answer | None]:
        """Ask $translate of FHIR R5 likewise."""
        return self._translated("r5")

    def upload(self) -> list[Answer | None]:
        """Upload what the command line wrote, as the review page does, and read the queue."""
        from alphita.review.store import ReviewStore

        with ReviewStore.open(self._store(), create=True) as store, self._client(store) as client:
            asked = {"name": PROJECT, "source": SOURCE, "filename": self.answered_csv.name}
            content, kind = self.answered_csv.read_bytes(), {"Content-Type": "text/csv"}
            client.post("/api/projects", params=asked, content=content, headers=kind).raise_for_status()
            wanted = {"order": "row", "state": "all", "limit": len(self.mentions)}
            queue = client.get(f"/api/projects/{PROJECT}/rows", params=wanted).json()["rows"]
            return self._first({"row": one["number"], "rank": 1} | one["answer"] for one in queue)

    def review_import(self) -> list[Answer | None]:
        """Bring what the command line wrote into a store by `alphita review import`."""
        return self._reviewed(self._imported(), PROJECT)

    def demo(self) -> list[Answer | None]:
        """Fill the demo's store with the mentions as its sample."""
        from alphita.service import review_files

        sample, store = self.folder / "sample.csv", self._store()
        _write_csv(sample, ("mention", "concept_id"), [(one, "NIL") for one in self.mentions])
        review_files.fill_demo(store, self.normalizer, sample)
        return self._reviewed(store, review_files.DEMO_PROJECT)

    # What doors share.

    @functools.cached_property
    def normalizer(self) -> Any:
        """What `alphita.load` gives."""
        import alphita

        return alphita.load(self.to, **self.options)

    @functools.cached_property
    def answered_csv(self) -> Path:
        """What the command line writes, which is what is reviewed."""
        given, out = self.folder / "in.csv", self.folder / "out.csv"
        rows = [(one, f"M{number}") for number, one in enumerate(self.mentions, 1)]
        _write_csv(given, ("text", "code"), rows)
        self._normalize(given, "-o", out, "--column", "text", "--code-column", "code")
        return out

    def _normalize(self, given: Path, *further: object) -> None:
        options = [word for name, value in self.options.items() for word in (f"--{name.replace('_', '-')}", value)]
        _alphita("normalize", given, "--to", self.to, "--top", self.top_k, *options, *further)

    @contextlib.contextmanager
    def _client(self, store: Any = None) -> Iterator[Any]:
        from starlette.testclient import TestClient

        from alphita.service.app import create
        from alphita.service.settings import Settings

        app = create(Settings(rate=0, max_characters=MAX_CHARACTERS), self.normalizer, store)
        with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 40_000)) as client:
            yield client

    def _posted(self, client: Any, mentions: Sequence[str]) -> list[Answer | None]:
        given = client.post("/normalize", json={"mentions": mentions, "top": self.top_k}).raise_for_status()
        return [answer(one) for one in given.json()["results"]]

    def _store(self) -> Path:
        """Return the path of a new store of reviews."""
        return Path(tempfile.mkdtemp(dir=self.folder)) / "reviews.sqlite"

    def _imported(self) -> Path:
        store = self._store()
        _alphita("review", "import", self.answered_csv, "-m", store, "--project", PROJECT, "--source", SOURCE)
        return store

    def _reviewed(self, path: Path, project: str) -> list[Answer | None]:
        from alphita.review.store import ReviewStore

        with ReviewStore.open(path) as store:
            standings = store.queue(project, order="row", state="all", limit=len(self.mentions))[1]
            rows = [(one.row.number, one.row.candidates[0]) for one in standings]
        return self._first({"row": row, "rank": 1} | fields_of(one) for row, one in rows)

    def _translated(self, release: str) -> list[Answer | None]:
        from alphita.review.store import ReviewStore

        headers = {"Content-Type": "application/fhir+json"}
        with ReviewStore.open(self._imported()) as store, self._client(store) as client:
            for standing in store.queue(PROJECT, order="row", state="all", limit=len(self.mentions))[1]:
                body = {"uid": f"d{standing.row.id}", "kind": "accept", "seen": 0}
                client.post(f"/api/projects/{PROJECT}/rows/{standing.row.id}/decisions", json=body).raise_for_status()
            found: list[Answer | None] = []
            for number in range(1, len(self.mentions) + 1):
                coding = {"system": SYSTEM, "code": f"M{number}"}
                asked = {"resourceType": "Parameters", "parameter": [{"name": "coding", "valueCoding": coding}]}
                path = f"/fhir/{release}/ConceptMap/$translate"
                found.append(of_fhir(client.post(path, json=asked, headers=headers).raise_for_status().json()))
            return found

    def _first(self, lines: Iterable[dict[str, Any]]) -> list[Answer | None]:
        """Return the answers of lines of candidates, by row; None for a mention that has none."""
        found = {int(line["row"]): answer(line) for line in lines if int(line["rank"]) == 1}
        return [found.get(number) for number in range(1, len(self.mentions) + 1)]


# The first is what the others are compared with.
DOORS: dict[str, Callable[[Asked], list[Answer | None]]] = {
    "load, one at a time": Asked.one_at_a_time,
    "alphita.normalize": Asked.normalize,
    "normalize_iter": Asked.stream,
    "command line, CSV": Asked.csv,
    "command line, JSON Lines": Asked.json_lines,
    "command line, processes": Asked.processes,
    "polars column": Asked.polars,
    "pandas series": Asked.pandas,
    "spaCy": Asked.spacy,
    "REST": Asked.rest,
    "REST, one at a time": Asked.rest_one_at_a_time,
    "FHIR R4": Asked.fhir_r4,
    "FHIR R5": Asked.fhir_r5,
    "review page": Asked.upload,
    "review import": Asked.review_import,
    "demo": Asked.demo,
}
REFERENCE = next(iter(DOORS))


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _alphita(*words: object) -> None:
    """Run the command line in this process, silently."""
    from alphita import cli

    with contextlib.redirect_stdout(io.StringIO()):
        typer.main.get_command(cli.app)([str(word) for word in words], standalone_mode=False)
