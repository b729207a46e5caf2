"""Table 4 of Liu, Jiang and Lyu (2022) on open data: the text that is pre-trained on, and the table.

    python runs/chineseblue.py text CHINESEBLUE -o OUT [--set key=value]
    python runs/chineseblue.py table OUT

`text` writes OUT/text.jsonl: the texts of ChineseBLUE's training files, without their labels. CHINESEBLUE is a folder
as `alphita evaluate ner --data` takes it. Read are the training files of cEHRNER, cMedQANER, cMedTC, cMedIC and cMedQQ,
all that are there; no file that is scored. Each distinct text is written once, as {"text": ...}, in the order of the
files. --set notes what all rows are made with; OUT is refused if it was begun with something else.

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

import study
from alphita import artefact, report
from alphita.artefact import atomic_file
from alphita.errors import InputError
from alphita.progress import say
from alphita_lab.evaluation.benchmarks import Source, ner
from alphita_lab.evaluation.benchmarks._finetuned import MAXIMUM, file_of, read_question_pairs, read_texts
from electra import BY_NAME, PERCENT, PRETRAINED
from study import Column, report_figures, table, table_of_orderings, verdict, whole

TEXT = "text.jsonl"
READERS = {
    "cEHRNER": ner.read,
    "cMedQANER": ner.read,
    "cMedTC": read_texts,
    "cMedIC": read_texts,
    "cMedQQ": read_question_pairs,
}
ROWS = ("base", "em")
# Of table 4, in its order; cMedQNLI is not in the open data.
TASKS = (
    ("ner", "cEHRNER", "F1"),
    ("ner", "cMedQANER", "F1"),
    ("sentence_pair", "cMedQQ", "F1"),
    ("answer_ranking", "cMedQA", "F1"),
    ("retrieval", "cMedIR", "PAIR"),
    ("classification", "cMedIC", "F1"),
    ("classification", "cMedTC", "F1"),
)
PRETRAINED_BY_TEXT = tuple(one for one in PRETRAINED if one.name != "attribute_dev")


def _columns(benchmark: str, name: str, metric: str) -> tuple[Column, Column]:
    # PAIR is a ratio, the others are shares.
    form = PERCENT if metric == "F1" else {}
    subset = f"dataset={name}"
    return (
        Column(name, f"{name} {metric}", benchmark, metric, subset, **form),
        Column(f"{name}_best", "maximum", benchmark, metric, f"{subset}{MAXIMUM}", **form),
    )


# For each task the mean of the runs, and the best of them.
TUNED = tuple(column for task in TASKS for column in _columns(*task))


def training_files(folder: Path) -> dict[str, Path]:
    """Return set -> training file, of all that are there."""
    source = Source(data=folder)
    found = {name: path for name in READERS if (path := file_of(source, name, ("train",), ("txt",))) is not None}
    if not found:
        raise InputError(f"no training file of {', '.join(READERS)}", file=folder)
    return found


def texts(name: str, file: Path, counts: Counter[str]) -> Iterator[str]:
    """Yield the texts of a training file, without their labels."""
    read: Any = READERS[name]
    for group in read(file, counts):
        for one in group:
            yield from (one.text,) if read is ner.read else one.texts


def do_text(given: argparse.Namespace) -> None:
    """Write the texts of the training files, unless that is done."""
    files = training_files(given.folder)
    hashes = {path.name: artefact.hash_file(path) for path in files.values()}
    study.begin({"files": hashes, "settings": given.settings}, given.output)
    if (given.output / TEXT).is_file():
        return
    counts: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    seen: set[str] = set()
    with atomic_file(given.output / TEXT, "w") as out:
        for name, path in files.items():
            for text in texts(name, path, counts):
                if text not in seen:
                    seen.add(text)
                    kept[name] += 1
                    out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    listed = ", ".join(f"{name} {count:,}" for name, count in kept.items())
    say(f"{given.output / TEXT}: {len(seen):,} texts with {sum(map(len, seen)):,} characters ({listed})")
    for what, count in counts.items():
        say(f"  {what}: {count:,}")


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, seeds, what made them, and the figures of each column by seed."""
    rows = []
    for name in ROWS:
        found, made = {}, {}
        for seed, model in study.seeds_in(out / name).items():
            scored = model.with_name(f"{seed}.report")
            if not whole(scored, "report"):
                continue
            made[seed] = study.made_by(scored)
            manifest = artefact.open_manifest(model, "model")
            sequences = manifest["config"]["batch"] * manifest["config"]["steps"]
            trained = manifest["figures"] | {"sequences": sequences}
            (of_tasks,) = report_figures(scored).values()
            found[seed] = {one.name: float(trained[one.metric or one.name]) for one in PRETRAINED_BY_TEXT} | {
                one.name: of_tasks[place]
                for one in TUNED
                if (place := (one.benchmark, one.metric, one.subset)) in of_tasks
            }
        if made:
            title, figures = BY_NAME[name].title, study.by_column(found)
            rows.append({"name": name, "title": title, "seeds": list(made), "made": made, "figures": figures})
    return rows


def claims(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge the paper's claim, that entity masking helps with each task, by the differences seed by seed."""
    by_name = {row["name"]: row for row in rows}
    if not set(ROWS) <= set(by_name):
        return []
    base, em = (by_name[name] for name in ROWS)
    found = []
    for _, name, metric in TASKS:
        said = verdict(em["figures"].get(name, {}), base["figures"].get(name, {}))
        if said is not None:
            names = {"first": em["title"], "second": base["title"], "measure": f"{name} {metric}", "column": name}
            found.append({**names, "paper": "table 4", **said})
    return found


def markdown(rows: Sequence[dict[str, Any]], judged: Sequence[dict[str, Any]]) -> str:
    """Return the tables as Markdown."""
    lines = ["# ELECTRA and entity masking on Chinese tasks", "", *table(rows, PRETRAINED_BY_TEXT), ""]
    lines += [*table(rows, TUNED), ""]
    if judged:
        lines += [*table_of_orderings(judged, TUNED), ""]
    lines += [
        "Mean ± standard deviation over n seeds of the pre-training (n - 1 in the denominator). Loss and AUC on text "
        "that is held out; not masked alike, the rows are not to be compared in them. Tasks: the mean of the runs of "
        "fine-tuning of each seed, and the best of them; F1 in percent.",
        "",
        study.RULE,
        "",
    ]
    return "\n".join(lines)


def do_table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    rows = rows_of(given.out)
    if not rows:
        raise InputError("nothing in this folder is finished", file=given.out)
    judged = claims(rows)
    figures = {"rows": rows, "claims": judged}
    origin = report.provenance(config=study.begun(given.out))
    study.write_table(given.out, figures, origin, markdown(rows, judged))
    study.show(given.out / f"{study.TABLE}.md")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = study.add_command(commands, do_text)
    one.add_argument("folder", type=Path, metavar="CHINESEBLUE")
    one.add_argument("--output", "-o", type=Path, required=True, help="the folder of everything")
    study.add_settings(one, "--set", "all rows", "settings")
    study.add_command(commands, do_table).add_argument("out", type=Path)
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
