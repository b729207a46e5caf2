"""How well a list is answered on the download of omop_journey.py, by the domain that the hospital gives each row.

    python bench/omop_scores.py check STRINGS FOLDER
    python bench/omop_scores.py run STRINGS FOLDER -o ANSWERS.csv [--with=--domain-map --with=domains.csv]
    python bench/omop_scores.py score STRINGS ANSWERS.csv
    python bench/omop_scores.py usagi STRINGS FOLDER [--answers ANSWERS.csv]

`run` is the documented command with three candidates and all columns of the list that this version of it takes.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import binomtest

from alphita.terminology import prefixes
from omop_journey import rows

NIL = "NIL"
# The hospital's words for domains, and the domains of concepts that may answer them.
DOMAINS = {
    "Diagnosis": ("Condition", "Observation"),
    "Drug": ("Drug",),
    "Lab": ("Measurement",),
    "Procedure": ("Procedure",),
}
COLUMNS = ("code", "specimen", "unit", "language", "domain")


@dataclass
class Row:
    """A string, what is right for it, and what it was answered with, best first."""

    domain: str
    string: str
    gold: frozenset[str]
    answers: list[str] = field(default_factory=list)
    decision: str = "nil"

    @property
    def has_target(self) -> bool:
        return bool(self.gold)

    @property
    def is_right(self) -> bool:
        """Whether the first candidate is right, and the answer is not NIL."""
        return self.decision != "nil" and bool(self.answers) and self.answers[0] in self.gold


def curie(identifier: str) -> str:
    """Return an id with the prefix that Alphita writes: RxNorm:123 -> RXNORM:123."""
    prefix, _, code = identifier.partition(":")
    return f"{prefixes.canonical(prefix)}:{code}"


def read(strings: Path) -> list[Row]:
    """Read a list with its gold."""
    return [Row(row["domain"], row["string"], frozenset(map(curie, _ids(row)))) for row in rows(strings)]


def _ids(row: Mapping[str, str]) -> list[str]:
    return [] if row["gold"] == NIL else [row["gold"], *filter(None, row["also"].split("|"))]


def check(strings: Path, folder: Path) -> list[str]:
    """Return what is wrong with a list: ids that are no standard concepts of the folder, strings that occur twice."""
    standard = {
        f"{row['vocabulary_id']}:{row['concept_code']}"
        for row in rows(folder / "CONCEPT.csv")
        if row["standard_concept"] == "S"
    }
    problems, seen = [], set()
    for row in rows(strings):
        problems += [f"{row['id']}: {some} is no standard concept" for some in _ids(row) if some not in standard]
        if row["string"].lower() in seen:
            problems.append(f"{row['id']}: this string occurs twice")
        seen.add(row["string"].lower())
        if row["domain"] not in DOMAINS:
            problems.append(f"{row['id']}: unknown domain {row['domain']!r}")
    return problems


def run(strings: Path, folder: Path, output: Path, further: Sequence[str]) -> int:
    """Answer a list by the documented command."""
    alphita = [sys.executable, "-m", "alphita", "normalize"]
    known = subprocess.run([*alphita, "--help-all"], capture_output=True, text=True, check=True).stdout
    command = [*alphita, str(strings), "--to", str(folder), "--column", "string", "--frequency-column", "count"]
    for name in COLUMNS:
        # Before --specimen-column, a unit was that of a value at the end of a string.
        if f"--{name}-column" in known and (name != "unit" or "--specimen-column" in known):
            command += [f"--{name}-column", name]
    if "--domain-map" in known and "--domain-map" not in further:
        table = output.with_suffix(".domains.csv")
        pairs = [(word, domain) for word, domains in DOMAINS.items() for domain in domains]
        table.write_text("value,domain\n" + "".join(f"{word},{domain}\n" for word, domain in pairs))
        command += ["--domain-map", str(table)]
    command += ["--standard-only", "--top", "3", "--force", "-o", str(output), *further]
    print(" ".join(command), flush=True)
    return subprocess.run(command, check=False).returncode


def answer(listed: list[Row], answers: Path) -> None:
    """Put answers of `alphita normalize`, as CSV, to their rows."""
    with answers.open(encoding="utf-8-sig", newline="") as file:
        for line in csv.DictReader(file):
            row = listed[int(line["row"]) - 1]
            if line["rank"] in ("", "1"):
                row.decision = line["decision"]
            if line["concept_id"]:
                row.answers.append(curie(line["concept_id"]))


def share(part: int, whole: int) -> str:
    """Return a share in percent with its interval."""
    if not whole:
        return "-"
    low, high = binomtest(part, whole).proportion_ci(method="wilson")
    return f"{100 * part / whole:.1f} ({100 * low:.0f}-{100 * high:.0f})"


FIGURES = ("target", "NIL of these %", "right at once %", "accepted %", "of these wrong %", "NIL right %")


def figures(listed: Sequence[Row]) -> list[str]:
    """Return the figures of some rows: of those with a target; of all, accepted; of those without one."""
    target = [row for row in listed if row.has_target]
    accepted = [row for row in listed if row.decision == "accept"]
    nothing = [row for row in listed if not row.has_target]
    return [
        str(len(target)),
        share(sum(row.decision == "nil" for row in target), len(target)),
        share(sum(row.is_right for row in target), len(target)),
        share(len(accepted), len(listed)),
        share(sum(not row.is_right for row in accepted), len(accepted)),
        share(sum(row.decision == "nil" for row in nothing), len(nothing)),
    ]


def table(listed: Sequence[Row], header: Sequence[str], cells: Callable[[Sequence[Row]], list[str]]) -> str:
    """Return a table of figures by domain."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in listed:
        groups[row.domain].append(row)
    lines = [["", *header], ["---"] * (len(header) + 1)]
    lines += [[name, *cells(some)] for name, some in {**groups, "all": list(listed)}.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def usagi(listed: Sequence[Row], folder: Path) -> tuple[list[str], list[str]]:
    """Return Usagi's first candidate of each row, without and with a filter by domain."""
    sys.path.append(str(Path(__file__).parent / "peers"))
    from usagi import Term, Usagi

    concepts = {int(row["concept_id"]): row for row in rows(folder / "CONCEPT.csv")}
    targets = {
        int(row["concept_id_1"]): int(row["concept_id_2"])
        for row in rows(folder / "CONCEPT_RELATIONSHIP.csv")
        if row["relationship_id"] == "Maps to"
    }
    names = [(number, row["concept_name"]) for number, row in concepts.items()]
    names += [(int(row["concept_id"]), row["concept_synonym_name"]) for row in rows(folder / "CONCEPT_SYNONYM.csv")]
    terms = []
    for place, (number, name) in enumerate(names):
        target = number if concepts[number]["standard_concept"] else targets.get(number, 0)
        own = concepts[target]
        is_name = name.lower() == own["concept_name"].lower()
        if own["standard_concept"] and (not is_name or (place < len(concepts) and target == number)):
            terms.append(Term(name, target, is_name, own["domain_id"], own["standard_concept"] == "S"))
    search = Usagi(terms, [row.string for row in listed]).search

    def first(row: Row, domains: Iterable[str]) -> str:
        found = search(row.string, tuple(domains))
        return (
            curie(f"{concepts[found[0][0]]['vocabulary_id']}:{concepts[found[0][0]]['concept_code']}") if found else ""
        )

    return [first(row, ()) for row in listed], [first(row, DOMAINS[row.domain]) for row in listed]


def beside(listed: Sequence[Row], plain: Sequence[str], filtered: Sequence[str]) -> str:
    """Return Usagi's first candidates beside the answers, where there are any."""
    for row, one, other in zip(listed, plain, filtered, strict=True):
        row.answers = [one, other, row.answers[0] if row.answers else ""]

    def cells(some: Sequence[Row]) -> list[str]:
        target = [row for row in some if row.has_target]
        right = [sum(row.answers[at] in row.gold for row in target) for at in range(3)]
        return [str(len(target)), *(share(one, len(target)) for one in right)]

    return table(listed, ("target", "Usagi %", "Usagi, by domain %", "Alphita %"), cells)


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("check", "run", "score", "usagi"):
        made = commands.add_parser(name)
        made.add_argument("strings", type=Path)
        if name != "score":
            made.add_argument("folder", type=Path)
        if name == "run":
            made.add_argument("--output", "-o", type=Path, required=True)
            made.add_argument(
                "--with", dest="further", action="append", default=[], help="a further option of normalize"
            )
        if name in ("score", "usagi"):
            made.add_argument("answers" if name == "score" else "--answers", type=Path)
    given = parser.parse_args()
    if given.command == "check":
        problems = check(given.strings, given.folder)
        print("\n".join(problems) or f"{given.strings}: every concept is there")
        return int(bool(problems))
    if given.command == "run":
        return run(given.strings, given.folder, given.output, given.further)
    listed = read(given.strings)
    if given.answers is not None:
        answer(listed, given.answers)
    if given.command == "score":
        print(table(listed, FIGURES, figures))
    else:
        print(beside(listed, *usagi(listed, given.folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
