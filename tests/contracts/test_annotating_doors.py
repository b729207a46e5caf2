"""The same mentions in free text by every door: command line, Python, REST, spaCy."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from alphita.annotation.formats.jsonl import annotation_of
from tests.service.review_service import client_of

TEXTS = [
    "No fever. Severe headache and back pain since Monday; her mother had migraine.",
    "Shortness of breath (SOB) at night.\r\nSOB is worse today, possibly with chest   pain 🤮 and näusea.",
    "pain in the chest and throat, siezures",
    "Nothing of note.",
    "There is no\r\nevidence of\r\nsevere chest\r\npain.\rMigraine",
]
OPTIONS = {"defaults": {}, "exact": {"exact": True}, "precision": {"precision": 0.9}}


def of_python(to, options, folder):
    import alphita

    return alphita.annotate(TEXTS, to=to, **options)


def of_one_at_a_time(to, options, folder):
    import alphita

    return [alphita.annotate(text, to=to, **options) for text in TEXTS]


def of_command_line(to, options, folder):
    from alphita.cli import app

    given, out = folder / "texts.jsonl", folder / "out.jsonl"
    given.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]
    done = CliRunner().invoke(app, ["annotate", str(given), "--to", to, "-o", str(out), *flags])
    assert done.exit_code == 0, done.output
    lines = out.read_text(encoding="utf-8").splitlines()
    return [[annotation_of(one) for one in json.loads(line)["annotations"]] for line in lines]


def of_rest(to, options, folder):
    import alphita

    with client_of(alphita.load(to)) as client:
        answer = client.post("/annotate", json={"texts": TEXTS, **options})
        assert answer.status_code == 200
    return [[annotation_of(one) for one in found["annotations"]] for found in answer.json()["results"]]


def of_spacy(to, options, folder):
    spacy = pytest.importorskip("spacy")
    import alphita.integrations.spacy_annotate  # noqa: F401 - makes the component known

    nlp = spacy.blank("en")
    nlp.add_pipe("alphita_annotate", config={"to": to, "spans_key": "found", **options})
    return [[span._.alphita for span in doc.spans["found"]] for doc in nlp.pipe(TEXTS)]


DOORS = {one.__name__.removeprefix("of_"): one for one in (of_one_at_a_time, of_command_line, of_rest, of_spacy)}


@pytest.fixture(scope="module")
def right(to):
    return {name: of_python(to, options, None) for name, options in OPTIONS.items()}


def test_the_mentions_are_worth_comparing(right):
    mentions = {(one.mention, one.said) for some in right["defaults"] for one in some}
    assert mentions >= {("fever", ("negated",)), ("headache", ("affirmed",)), ("migraine", ("family",))}
    assert {one.mention for one in right["defaults"][1]} >= {"Shortness of breath", "SOB"}
    assert any(one.modifiers for one in right["defaults"][0])
    assert all(one.confidence >= 0.9 for some in right["precision"] for one in some)
    assert all(one.confidence is None for some in right["exact"] for one in some)
    assert right["defaults"][3] == []
    for some in (right["defaults"][4], right["exact"][4]):
        assert [(one.mention, one.said) for one in some] == [
            ("chest\r\npain", ("negated",)),
            ("Migraine", ("affirmed",)),
        ]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_finds_the_same(to, right, tmp_path, door, options):
    assert DOORS[door](to, OPTIONS[options], tmp_path) == right[options]
