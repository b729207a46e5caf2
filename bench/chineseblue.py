"""Table 4 of Liu, Jiang and Lyu (2022) on open data: the text that is pre-trained on, and the table.

    python bench/chineseblue.py text CHINESEBLUE -o TEXT.jsonl
    python bench/chineseblue.py table OUT

`text` writes the texts of ChineseBLUE's training files, without their labels. CHINESEBLUE is a folder as `alphita
evaluate ner --data` takes it. Read are the training files of cEHRNER, cMedQANER, cMedTC, cMedIC and cMedQQ, all that
are there; no file that is scored. Each distinct text is written once, as {"text": ...}, in the order of the files.

`table` writes OUT/table.json and OUT/table.md of the reports in OUT/ROW/SEED.report and the models beside them.

runs/electra_chinese_open.sh calls this.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from alphita import artefact
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError
from alphita.evaluation import report
from alphita.evaluation.benchmarks import classification, ner, sentence_pair
from alphita.evaluation.benchmarks._chineseblue import maximum
from alphita.progress import say
from electra_table import PERCENT, PRETRAINED
from italian_data import whole
from italian_graph import report_figures
from italian_table import Column, table, verdict

READERS = {
    "cEHRNER": ner, "cMedQANER": ner, "cMedTC": classification, "cMedIC": classification, "cMedQQ": sentence_pair,
}  # fmt: skip
ROWS = {"base": "ELECTRA", "em": "ELECTRA+EM"}
# Of table 4, in its order; cMedQNLI is not in the open data.
TASKS = (
    ("ner", "cEHRNER", "F1"), ("ner", "cMedQANER", "F1"), ("sentence_pair", "cMedQQ", "F1"),
    ("answer_ranking", "cMedQA", "F1"), ("retrieval", "cMedIR", "PAIR"), ("classification", "cMedIC", "F1"),
    ("classification", "cMedTC", "F1"),
)  # fmt: skip
TEXT = tuple(one for one in PRETRAINED if one.name != "attribute_dev")


def texts(folder: Path, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield (set, text) of all training files that are there.

    Args:
        folder: of the files, NAME.train.txt or NAME/train.txt, gzipped or not.
        counts: what was left out or mended is added.

    Raises:
        InputError: none is there, or one is of another layout.
    """
    files = [(name, path) for name in READERS for path in [_file(folder, name)] if path is not None]
    if not files:
        raise InputError(f"no training file of {', '.join(READERS)}", file=folder)
    for name, path in files:
        reader: Any = READERS[name]
        for group in reader.read(path, counts):
            for one in group:
                yield from ((name, text) for text in ((one.text,) if reader is ner else one.texts))


def _file(folder: Path, name: str) -> Path | None:
    files = (folder / f"{name}{mark}train.txt{packed}" for mark in ("/", ".") for packed in ("", ".gz"))
    return next((file for file in files if file.is_file()), None)


def write_text(given: argparse.Namespace) -> None:
    """Write the texts of the training files."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    kept: Counter[str] = Counter()
    with atomic_file(given.output, "w") as file:
        for name, text in texts(given.folder, counts):
            if text not in seen:
                seen.add(text)
                kept[name] += 1
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    listed = ", ".join(f"{name} {count:,}" for name, count in kept.items())
    say(f"{given.output}: {len(seen):,} texts with {sum(map(len, seen)):,} characters ({listed})")


def columns() -> tuple[Column, ...]:
    """Return the columns of the fine-tuned tasks: for each the mean of the runs, and the best of them."""
    found = []
    for benchmark, name, metric in TASKS:
        # PAIR is a ratio, the others are shares.
        form = PERCENT if metric == "F1" else {"digits": 2}
        subset = f"dataset={name}"
        found += [
            Column(name, f"{name} {metric}", benchmark, metric, subset, **form),
            Column(f"{name}_best", "maximum", benchmark, metric, maximum(subset), **form),
        ]
    return tuple(found)


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, seeds, and the figures of each column by seed."""
    rows = []
    for name, title in ROWS.items():
        figures: dict[str, dict[int, float]] = {}
        seeds = sorted(int(path.name) for path in (out / name).glob("*") if path.name.isdigit())
        scored = [seed for seed in seeds if whole(out / name / f"{seed}.report", "report")]
        for seed in scored:
            manifest = artefact.open_manifest(out / name / str(seed), "model")
            settings = manifest["config"]
            trained = manifest["figures"] | {"sequences": settings["batch"] * settings["steps"]}
            for one in TEXT:
                if (key := one.metric or one.name) in trained:
                    figures.setdefault(one.name, {})[seed] = float(trained[key])
            (told,) = report_figures(out / name / f"{seed}.report").values()
            for one in columns():
                if (place := (one.benchmark, one.metric, one.subset)) in told:
                    figures.setdefault(one.name, {})[seed] = told[place]
        if scored:
            rows.append({"name": name, "title": title, "seeds": scored, "figures": figures})
    return rows


def claims(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge the paper's claim, that entity masking helps with each task, by the differences seed by seed."""
    by_name = {row["name"]: row["figures"] for row in rows}
    found = []
    for _, name, metric in TASKS:
        said = verdict(*(by_name.get(row, {}).get(name, {}) for row in ("em", "base")))
        if said is not None:
            found.append({"claim": "ELECTRA+EM over ELECTRA", "measure": f"{name} {metric}", **said})
    return found


def markdown(rows: Sequence[dict[str, Any]], judged: Sequence[dict[str, Any]]) -> str:
    """Return the tables as Markdown."""
    lines = ["# ELECTRA and entity masking on Chinese tasks", "", *pretrained_table(rows), "", *tuned_table(rows), ""]
    lines += [*claims_table(judged), ""]
    lines += [
        "Mean ± standard deviation over n seeds of the pre-training (n - 1 in the denominator). Loss and AUC on text "
        "that is held out; not masked alike, the rows are not to be compared in them. Tasks: the mean of the runs of "
        "fine-tuning of each seed, and the best of them; F1 in percent. A claim holds where the mean difference, seed "
        "by seed, is above its standard deviation, and does not where it is below minus that.",
        "",
    ]
    return "\n".join(lines)


def pretrained_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of the pre-training."""
    return table(rows, TEXT)


def tuned_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of the fine-tuned tasks."""
    return table(rows, columns())


def claims_table(judged: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of what `claims` judged."""
    lines = ["| claim | on | difference | n | verdict |", "|---|---|---:|---:|---|"]
    forms = {f"{name} {metric}": (100, 1) if metric == "F1" else (1, 2) for _, name, metric in TASKS}
    for one in judged:
        scale, digits = forms[one["measure"]]
        ends = "" if one["sd"] is None else f" ± {scale * one['sd']:.{digits}f}"
        lines.append(
            f"| {one['claim']} | {one['measure']} | {scale * one['mean']:+.{digits}f}{ends} | {one['n']} "
            f"| {one['verdict']} |"
        )
    return lines


def write_table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    rows = rows_of(given.out)
    if not rows:
        raise InputError("nothing in this folder is finished", file=given.out)
    judged = claims(rows)
    report.write(given.out / "table.json", {"rows": rows, "claims": judged}, provenance=report.provenance())
    with atomic_file(given.out / "table.md", "w") as file:
        file.write(markdown(rows, judged))
    print((given.out / "table.md").read_text(encoding="utf-8"), end="")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("text", help=write_text.__doc__)
    one.add_argument("folder", type=Path, metavar="CHINESEBLUE")
    one.add_argument("--output", "-o", type=Path, required=True, help="TEXT.jsonl")
    one.set_defaults(action=write_text)
    one = commands.add_parser("table", help=write_table.__doc__)
    one.add_argument("out", type=Path)
    one.set_defaults(action=write_table)
    given = parser.parse_args(words)
    try:
        given.action(given)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
