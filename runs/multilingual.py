"""From a translation to its English concept, on concepts none of whose names trained: before and after distillation.

    python runs/multilingual.py --terminology T --split S --before minilm --before EXTENDED --after M0 --after M1 -o O

The split is one of whole concepts: `alphita terminology split T --concepts 0.1 -o S`. runs/multilingual_open.sh makes
it, trains the models, and calls this. O/scores/ holds a file a model, and what is there is not done again; O gets
table.json and table.md. Gains are over the first model of --before; models of --after are seeds of one setting.

What is asked: each official exact translation of a held-out concept, distinct as cleaned, once. One that equals an
English name of its concept is counted and left out, for it needs no translation. Searched are all exact English names
of all live concepts, the held-out ones too. It is right if a concept of the most similar name is the translation's.

English: of each concept with several exact English names, one that is not preferred and that no other concept has, by
chance, finds the others' concept, itself taken out of what is searched; of the held-out concepts and of all. Languages
with fewer than 1,000 official translations in the whole terminology stand below the others and are in no mean.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import study
from alphita import TermEncoder, artefact, machine, report
from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.progress import say
from alphita.terminology.reading import rows_of
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.report.markdown import table as markdown_table
from alphita_lab.evaluation.report.markdown import text
from alphita_lab.evaluation.scoring.results import bootstrap_interval
from alphita_lab.training.terms import aligned_pairs
from alphita_lab.training.terms.terminology_pairs import speaks

SOURCE, LEAST, BLOCK, SEED = "en", 1000, 256, 0
HELD_OUT, ALL = "English, held-out concepts", "English, all concepts"
SCORES = "scores"


@dataclass(frozen=True)
class Questions:
    """What is searched and asked.

    Attributes:
        names: m distinct cleaned English names.
        concepts: (m,) the concept rows that each of them names.
        asked: group -> its queries, cleaned: a language's tag, or one of the two of English.
        answers: group -> the concept row of each query.
        official: language -> official exact translations in the whole terminology.
        untranslated: language -> queries left out because they equal an English name of their concept.
    """

    names: list[str]
    concepts: list[frozenset[int]]
    asked: dict[str, list[str]]
    answers: dict[str, list[int]]
    official: dict[str, int]
    untranslated: dict[str, int]


def questions(terminology: Terminology, split: Split, *, seed: int = SEED) -> Questions:
    """Return what is asked of the concepts that a split holds out."""
    if split.facts.get("method") != "hold_out_concepts":
        raise InputError(
            "this split does not hold out whole concepts",
            value=split.facts.get("method"),
            remedy="make one: alphita terminology split --concepts 0.1",
        )
    if split.facts.get("terminology_hash") != terminology.content_hash:
        raise InputError("the split was made of another terminology", file=terminology.path, remedy="make it of this")
    held = set(rows_of(terminology, split.concept_ids).values())
    chosen = np.flatnonzero(_is(terminology, "scope", "exact") & _is(terminology, "status", "official"))
    table = terminology.terms.select(["string", "language", "type", "preferred"]).take(chosen)
    strings, tags, types, preferred = (table.column(name).to_pylist() for name in table.column_names)
    own: dict[int, list[str]] = {}
    named: dict[str, set[int]] = {}
    foreign: dict[str, dict[tuple[str, int], None]] = {}
    official: dict[str, int] = {}
    label: dict[int, str] = {}
    rows = terminology.term_concept[chosen].tolist()
    for concept, string, tag, kind, first in zip(rows, clean_many(strings), tags, types, preferred, strict=True):
        if not string or kind == "obsolete" or terminology.retired[concept]:
            continue
        if speaks(tag, SOURCE):
            own.setdefault(concept, []).append(string)
            named.setdefault(string, set()).add(concept)
            if first:
                label.setdefault(concept, string)
        elif tag is not None:
            official[tag] = official.get(tag, 0) + 1
            if concept in held:
                foreign.setdefault(tag, {})[string, concept] = None
    asked = {tag: [(string, concept) for string, concept in rows] for tag, rows in sorted(foreign.items())}
    untranslated = {
        tag: sum(concept in named.get(string, ()) for string, concept in rows) for tag, rows in asked.items()
    }
    asked = {tag: [row for row in rows if row[1] not in named.get(row[0], ())] for tag, rows in asked.items()}
    rng = np.random.default_rng(seed)
    asked[ALL] = []
    for concept, strings in sorted(own.items()):
        # A homonym has no one answer.
        single = [
            string
            for string in dict.fromkeys(strings)
            if len(named[string]) == 1 and string != label.get(concept, strings[0])
        ]
        if single:
            asked[ALL].append((single[int(rng.integers(len(single)))], concept))
    asked[HELD_OUT] = [row for row in asked[ALL] if row[1] in held]
    return Questions(
        list(named),
        [frozenset(found) for found in named.values()],
        {group: [string for string, _ in rows] for group, rows in asked.items() if rows},
        {group: [concept for _, concept in rows] for group, rows in asked.items() if rows},
        dict(sorted(official.items())),
        untranslated,
    )


def _is(terminology: Terminology, column: str, value: str) -> NDArray[np.bool_]:
    coded = terminology.terms.column(column).combine_chunks()
    found = np.array([one == value for one in coded.dictionary.to_pylist()] + [False])
    mask: NDArray[np.bool_] = found[coded.indices.fill_null(len(found) - 1).to_numpy(zero_copy_only=False)]
    return mask


def score(encoder: TermEncoder, given: Questions) -> dict[str, list[int]]:
    """Return 1 or 0 for each query of each group: whether the most similar name, by cosine, is of its concept."""
    distinct = list(dict.fromkeys([*given.names, *(string for group in given.asked.values() for string in group)]))
    place = {string: row for row, string in enumerate(distinct)}
    vectors = unit(encoder.encode(distinct, show_progress=True))
    names = vectors[: len(given.names)]
    found = {}
    for group, queries in given.asked.items():
        rows = np.array([place[string] for string in queries])
        right: list[int] = []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            similarity = vectors[block] @ names.T
            if group in (HELD_OUT, ALL):
                similarity[np.arange(len(block)), block] = -np.inf
            answers = given.answers[group][start : start + BLOCK]
            best = similarity.argmax(1).tolist()
            right += [int(answer in given.concepts[name]) for answer, name in zip(answers, best, strict=True)]
        found[group] = right
    return found


def scored(name: str, given: Questions, made_of: Mapping[str, Any], out: Path, precision: str) -> dict[str, Any]:
    """Return a model's scores, from the file if they were made before."""
    encoder = TermEncoder.load(name, precision=precision)
    training: dict[str, Any] = {}
    if (encoder.folder / artefact.MANIFEST).is_file():
        manifest = artefact.open_manifest(encoder.folder, "model")
        training = {key: manifest[key] for key in ("config", "seed", "pairs", "split", "teacher") if key in manifest}
    if training.get("split", made_of["split"]) != made_of["split"]:
        raise InputError(
            "this model was trained with another split, so it may know what is asked",
            file=name,
            remedy="train it with --split, and give that split",
        )
    data = {**made_of, "model": encoder.content_hash, "precision": encoder.precision}
    file = out / SCORES / f"{encoder.content_hash[:16]}.json"
    if file.is_file():
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if kept["provenance"]["data"] == data:
            return kept | {"name": name}
    say(f"scoring {name}")
    origin = report.provenance(seed=SEED, data=data)
    file.parent.mkdir(parents=True, exist_ok=True)
    return report.write(file, {"name": name, "training": training, "right": score(encoder, given)}, provenance=origin)


def rows_of_table(
    given: Questions, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row for each group: how many queries, the accuracies, and the gain over the first model of `before`."""
    rows = []
    trained = {tag for one in after for tag in one["training"].get("pairs", {})}
    for group, queries in given.asked.items():
        row: dict[str, Any] = {
            "group": group,
            "official": given.official.get(group),
            "queries": len(queries),
            "untranslated": given.untranslated.get(group),
            "trained": group in trained,
            "before": [float(np.mean(one["right"][group])) for one in before],
            "before_interval": list(bootstrap_interval(before[0]["right"][group])),
            "after": [float(np.mean(one["right"][group])) for one in after],
        }
        if after:
            # Paired by query: what makes a query easy for both models cancels out.
            gain = np.mean([one["right"][group] for one in after], axis=0) - np.asarray(before[0]["right"][group])
            row |= {"gain": float(gain.mean()), "gain_interval": list(bootstrap_interval(gain))}
        rows.append(row)
    return sorted(rows, key=lambda row: (row["official"] is None, -(row["official"] or 0)))


def means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return means over the languages with enough translations: all, those in Latin script, those of them trained."""
    named = [row for row in rows if (row["official"] or 0) >= LEAST]
    latin = [row for row in named if "LATIN" in aligned_pairs.scripts_of_language(row["group"])]
    groups = {
        f"mean of languages with {LEAST:,}": named,
        "mean of those in Latin script": latin,
        "mean of those trained, in Latin script": [row for row in latin if row["trained"]],
    }
    return [
        {
            "group": title,
            "languages": [row["group"] for row in of_title],
            "before": np.mean([row["before"] for row in of_title], axis=0).tolist(),
            "after": np.mean([row["after"] for row in of_title], axis=0).tolist(),
            **({"gain": float(np.mean([row["gain"] for row in of_title]))} if "gain" in of_title[0] else {}),
        }
        for title, of_title in groups.items()
        if of_title
    ]


def markdown(figures: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return the table as Markdown, with what it was made with below."""
    before, after = figures["models"]["before"], figures["models"]["after"]
    heads = ["", "official translations", "pairs trained", "queries", *(text(one["name"]) for one in before)]
    heads += [f"after, {len(after)} seed(s)", "gain"] if after else []
    english = [row for row in figures["rows"] if row["official"] is None]
    many = [row for row in figures["rows"] if (row["official"] or 0) >= LEAST]
    few = [row for row in figures["rows"] if row["official"] is not None and row["official"] < LEAST]
    pairs: Mapping[str, int] = after[0]["training"].get("pairs", {}) if after else {}
    lines = [_line(row, pairs) for row in [*many, *figures["means"], *english, *few]]
    told = [
        "Accuracy@1 in percent, from a translation to its concept among all exact English names; English: from a "
        "synonym to the other names. After: mean ± standard deviation over the seeds. Gain: points over the first "
        "model, with its 95% interval by paired bootstrap over the queries. Asked is each distinct official exact "
        "translation of the held-out concepts that is no English name of its concept "
        f"({sum(row['untranslated'] or 0 for row in figures['rows']):,} are).",
        "",
        f"- terminology `{origin['data']['terminology']}`: "
        + ", ".join(
            f"{text(str(one['name']))} {one['version'] or one['sha256'][:8]}" for one in origin["data"]["sources"]
        ),
        f"- split `{origin['data']['split']}`: {origin['data']['held_out_concepts']:,} concepts held out, "
        f"seed {origin['data']['split_seed']}; seed of the English synonyms {origin['seed']}",
        *(f"- `{one['name']}`: {one['hash'][:16]}" + _trained(one["training"]) for one in [*before, *after]),
        f"- commit {origin['commit']}; {origin['machine']['processor']}, {origin['machine']['cores']} cores",
    ]
    return "\n".join(["# From translations to English concepts", "", markdown_table(heads, lines), "", *told]) + "\n"


def _line(row: Mapping[str, Any], pairs: Mapping[str, int]) -> list[str]:
    numbers = [row.get("official"), pairs.get(row["group"]), row.get("queries")]
    cells = [row["group"], *("" if number is None else f"{number:,}" for number in numbers)]
    cells += [report.percent(figure) for figure in row["before"]]
    if not row["after"]:
        return cells
    spread = f" ± {100 * np.std(row['after'], ddof=1):.1f}" if len(row["after"]) > 1 else ""
    ends = (
        "".join(f" [{100 * low:+.1f}, {100 * high:+.1f}]" for low, high in [row["gain_interval"]])
        if row.get("gain_interval")
        else ""
    )
    return [*cells, f"{100 * np.mean(row['after']):.1f}{spread}", f"{100 * row['gain']:+.1f}{ends}"]


def _trained(training: Mapping[str, Any]) -> str:
    if "pairs" not in training:
        return ""
    keys = ("learning_rate", "batch", "epochs", "steps", "temperature", "languages", "pairing", "dropout")
    config = ", ".join(f"{key}={training['config'].get(key)}" for key in keys)
    return f", seed {training['seed']}, teacher {training['teacher'][:16]}, {config}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--terminology", type=Path, required=True)
    parser.add_argument("--split", type=Path, required=True, help="of whole concepts")
    parser.add_argument("--before", action="append", required=True, help="a model not trained on it; repeatable")
    parser.add_argument("--after", action="append", default=[], help="a trained model; repeatable, one a seed")
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"), help="of encoding")
    parser.add_argument("--threads", type=int)
    words = parser.parse_args(arguments)
    machine.set_threads(words.threads)

    def act() -> None:
        terminology, split = load_terminology(words.terminology), Split.load(words.split)
        given = questions(terminology, split)
        made_of = {"terminology": terminology.content_hash, "split": split.hash}
        before, after = (
            [scored(name, given, made_of, words.output, words.precision) for name in names]
            for names in (words.before, words.after)
        )
        rows = rows_of_table(given, before, after)
        models = {
            title: [
                {"name": one["name"], "hash": one["provenance"]["data"]["model"], "training": one["training"]}
                for one in of_title
            ]
            for title, of_title in (("before", before), ("after", after))
        }
        figures = {"models": models, "rows": rows, "means": means(rows), "searched": len(given.names)}
        sources = [
            {key: one.get(key) for key in ("name", "version", "sha256")} for one in terminology.manifest["sources"]
        ]
        data = made_of | {
            "sources": sources,
            "split_seed": split.facts["seed"],
            "held_out_concepts": split.facts["held_out_concepts"],
        }
        origin = report.provenance(seed=SEED, data=data)
        study.write_table(words.output, figures, origin, markdown(figures, origin))
        study.show(words.output / f"{study.TABLE}.md")

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
