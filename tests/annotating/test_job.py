"""Jobs of `alphita annotate`: formats, what is set aside, and going on after a kill."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser

import pytest

from alphita.annotating import job as jobs
from alphita.annotating.annotator import Annotator, Settings
from alphita.annotating.job import Job, run
from alphita.annotating.texts import Texts
from alphita.errors import InputError, UsageError
from tests.cli.command import alphita

TEXTS = {
    "a.txt": "Seizure since birth.\r\nNo hypotonia. Her mother has headache.\r\n",
    "b.txt": "𝒳 short and curved fingers, possible seizure",
    "c.txt": "Nothing of note.",
}
FORMATS = ("csv", "fhir", "html", "jsonl", "phenopackets", "pubtator")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "letters"
    path.mkdir()
    for name, text in TEXTS.items():
        (path / name).write_bytes(text.encode())
    return path


@pytest.fixture(scope="module")
def annotator(normalizer):
    return Annotator(normalizer, Settings(exact=True))


def written(annotator, folder, out, **options):
    summary = run(annotator, Job(Texts(str(folder)), out, **options))
    return summary, out.read_text(encoding="utf-8") if out.is_file() else None


def test_places_count_the_characters_of_the_text_as_given(annotator, folder, tmp_path):
    summary, content = written(annotator, folder, tmp_path / "out.jsonl")
    documents = [json.loads(line) for line in content.splitlines()]
    assert [one["text"] for one in documents] == list(TEXTS.values())
    found = [(one["text"], each) for one in documents for each in one["annotations"]]
    assert all(text[each["start"] : each["end"]] == each["mention"] for text, each in found)
    said = {each["mention"]: [one["category"] for one in each["context"]] for _, each in found}
    assert said == {
        "Seizure": [],
        "hypotonia": ["negated"],
        "headache": ["family"],
        "short and curved fingers": [],
        "curved fingers": [],
        "seizure": ["possible"],
    }
    assert (summary.documents, summary.mentions, summary.rejected) == (3, 6, 0)
    assert not list(tmp_path.glob("*.part"))


def test_csv_has_a_row_a_mention(annotator, folder, tmp_path):
    _, content = written(annotator, folder, tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [(row["document"], row["concept_id"], row["context"]) for row in rows][:3] == [
        ("a", "HP:1", "affirmed"),
        ("a", "HP:6", "negated"),
        ("a", "T:11", "family"),
    ]


def test_a_phenopacket_excludes_what_is_negated_and_leaves_out_the_family(annotator, folder, tmp_path):
    _, content = written(annotator, folder, tmp_path / "out.json", format="phenopackets")
    features = {one["id"]: one.get("phenotypicFeatures", []) for one in json.loads(content)["members"]}
    assert [(each["type"]["id"], each.get("excluded", False)) for each in features["a"]] == [
        ("HP:1", False),
        ("HP:6", True),
    ]
    assert "HP:1" not in [each["type"]["id"] for each in features["b"]]


def test_a_fhir_bundle_says_false_of_what_is_negated(annotator, folder, tmp_path):
    _, content = written(annotator, folder, tmp_path / "out.json", format="fhir")
    bundle = json.loads(content)
    values = {
        one["resource"]["code"]["text"]: one["resource"].get("valueBoolean")
        for one in bundle["entry"]
        if one["resource"]["resourceType"] == "Observation"
    }
    assert (values["Seizure"], values["hypotonia"]) == (True, False)
    assert len({one["fullUrl"] for one in bundle["entry"]}) == len(bundle["entry"])


def test_brat_and_pubtator_name_the_places(annotator, folder, tmp_path):
    run(annotator, Job(Texts(str(folder)), tmp_path / "brat", format="brat"))
    for name, text in TEXTS.items():
        assert (tmp_path / "brat" / name).read_bytes().decode() == text
    lines = (tmp_path / "brat" / "b.ann").read_text().splitlines()
    places = lines[0].split("\t")[1].split(" ", 1)[1]
    assert [TEXTS["b.txt"][int(a) : int(b)] for a, b in (one.split() for one in places.split(";"))] == [
        "short",
        "fingers",
    ]
    _, content = written(annotator, folder, tmp_path / "out.pubtator")
    assert "a\t0\t7\tSeizure\tConcept\tHP:1" in content.splitlines()


def test_the_page_shows_the_text_and_escapes_it(annotator, tmp_path):
    (tmp_path / "x.txt").write_text("<script>alert(1)</script> seizure & no hypotonia")
    _, content = written(annotator, tmp_path / "x.txt", tmp_path / "out.html")
    parser = _Marks()
    parser.feed(content)
    assert parser.marked == ["seizure", "hypotonia"]
    assert "<script>alert(1)" not in content


class _Marks(HTMLParser):
    """Gathers what stands in marks."""

    def __init__(self):
        super().__init__()
        self.marked, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "mark":
            self.marked.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "mark"

    def handle_data(self, data):
        if self.inside:
            self.marked[-1] += data


def test_what_cannot_be_used_is_set_aside(annotator, folder, tmp_path):
    (folder / "d.txt").write_bytes(b"PK\x03\x04")
    (folder / "e.txt").write_bytes("é".encode("latin-1"))
    (folder / "f.txt").write_bytes(b" \n")
    (folder / "g.txt").write_bytes(b"\x00\x01\x02 seizure" * 5)
    summary, content = written(annotator, folder, tmp_path / "out.jsonl")
    assert (summary.documents, summary.rejected, len(content.splitlines())) == (3, 4, 3)
    with open(summary.rejects, newline="") as file:
        assert [row["file"].rsplit("/", 1)[1] for row in csv.DictReader(file)] == ["d.txt", "e.txt", "f.txt", "g.txt"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_job_that_was_killed_gives_the_same_bytes(annotator, folder, tmp_path, monkeypatch, form, done):
    monkeypatch.setattr(jobs, "CHUNK_DOCUMENTS", 1)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(annotator, Job(Texts(str(folder)), whole, form))
    calls = iter(range(3))

    class Dying:
        settings, normalizer = annotator.settings, annotator.normalizer

        def annotate(self, documents):
            if next(calls) == done:
                raise KeyboardInterrupt
            return annotator.annotate(documents)

    if done < 3:
        with pytest.raises(KeyboardInterrupt):
            run(Dying(), Job(Texts(str(folder)), broken, form))
        assert not broken.exists()
        with pytest.raises(UsageError, match="--resume"):
            run(annotator, Job(Texts(str(folder)), broken, form))
    assert run(annotator, Job(Texts(str(folder)), broken, form), resume=done < 3).resumed == done % 3
    assert broken.read_bytes() == whole.read_bytes()


def test_a_changed_input_is_told(annotator, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "CHUNK_DOCUMENTS", 1)
    calls = iter(range(2))

    class Dying:
        settings, normalizer = annotator.settings, annotator.normalizer

        def annotate(self, documents):
            if next(calls):
                raise KeyboardInterrupt
            return annotator.annotate(documents)

    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(Dying(), Job(Texts(str(folder)), out))
    (folder / "a.txt").write_text("another")
    with pytest.raises(InputError, match="changed"):
        run(annotator, Job(Texts(str(folder)), out), resume=True)


def test_the_command(index_path, folder, tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert alphita("annotate", folder, "--index", index_path, "-o", out, "--exact") == 0
    told = capsys.readouterr().out
    assert "3 texts, 19 words: 6 mentions of 5 concepts" in told
    assert alphita("annotate", folder, "--index", index_path, "-o", out, "--exact") == 2
    assert "already exists" in capsys.readouterr().err
    assert alphita("annotate", folder, "--index", index_path, "-o", tmp_path / "out.xyz", "--exact") == 2
    assert "cannot tell the format" in capsys.readouterr().err
    (tmp_path / "rules.tsv").write_text("phrase\tcategory\tdirection\treach\nno\tnegatd\tahead\t\n")
    words = ["annotate", folder, "--index", index_path, "-o", tmp_path / "o.csv", "--exact"]
    assert alphita(*words, "--context-rules", tmp_path / "rules.tsv") != 0
    told = capsys.readouterr().err
    for part in ("rules.tsv", "negatd", "negated", "category"):
        assert part in told
