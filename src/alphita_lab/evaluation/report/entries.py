"""What the page and the Markdown of a report have in common: looking figures up in report.json and writing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alphita_lab.evaluation.scoring.results import RESAMPLES

ALL = "all"
UNSEEN = "seen=False"
MEAN_OF_FOLDS = "mean of folds"
NONE = "–"
# The least p that a paired bootstrap of so many resamples can give, on two sides.
P_FLOOR = 2 / (RESAMPLES + 1)
# Words in the names of metrics that lie in 0 to 1 and are printed as percentages.
FRACTIONS = ("accuracy", "precision", "recall", "f1", "hits@", "mrr", "ordered pairs")

Entry = Mapping[str, Any]
# A metric and a subset.
Column = tuple[str, str]


def scored(entry: Entry) -> list[Entry]:
    """Return the systems of a benchmark that were scored, i.e. without those that it does not fit."""
    return [system for system in entry["systems"] if "figures" in system]


def systems_of(report: Entry) -> list[str]:
    """Return the names of all systems that were scored on something, in the order in which they stand first."""
    return list(dict.fromkeys(system["name"] for entry in report["benchmarks"] for system in scored(entry)))


def systems_in(of_task: Sequence[Entry], report: Entry) -> list[str]:
    """Return the names of the systems that were scored on some of these benchmarks, in the report's order."""
    scored_names = set(systems_of({"benchmarks": of_task}))
    return [name for name in systems_of(report) if name in scored_names]


def system(entry: Entry, name: str) -> Entry | None:
    """Return a system that was scored on a benchmark, by its name."""
    return next((system for system in scored(entry) if system["name"] == name), None)


def system_facts(report: Entry) -> dict[str, Entry]:
    """Return what each system is, by name."""
    facts: dict[str, Entry] = {}
    for entry in report["benchmarks"]:
        for system in entry["systems"]:
            facts.setdefault(system["name"], system.get("facts", {}))
    return facts


def by_task(report: Entry) -> dict[str, list[Entry]]:
    """Return the benchmarks of each task, in order; tasks of which nothing was run come last."""
    tasks: dict[str, list[Entry]] = {}
    for entry in report["benchmarks"]:
        tasks.setdefault(entry["task"], []).append(entry)
    return dict(sorted(tasks.items(), key=lambda item: all(entry["not_run"] is not None for entry in item[1])))


def figure(system: Entry, metric: str, subset: str = ALL) -> Entry | None:
    """Return one figure of a system, None if it has none."""
    return next((one for one in system.get("figures", ()) if (one["metric"], one["subset"]) == (metric, subset)), None)


def metric_of(entry: Entry, name: str) -> Entry:
    """Return what is known of a metric: `fraction` and `higher_is_better`."""
    known = (metric for system in entry["systems"] for metric in system.get("metrics", ()) if metric["name"] == name)
    fraction = any(word in name.lower() for word in FRACTIONS)
    return next(known, {"fraction": fraction, "higher_is_better": True if name == entry["main_metric"] else None})


def columns(entry: Entry) -> list[Column]:
    """Return what stands beside the systems: every metric over all rows and over parts that are no subset of rows."""
    columns_of_figures = [
        (figure["metric"], figure["subset"]) for system in scored(entry) for figure in system["figures"]
    ]
    columns_of_figures += [(figure["metric"], figure["subset"]) for figure in entry["published"]]
    whole = dict.fromkeys(column for column in columns_of_figures if "=" not in column[1])
    return sorted(whole, key=lambda column: (column[0] != entry["main_metric"], column != (entry["main_metric"], ALL)))


def has_unseen(entry: Entry) -> bool:
    """Tell whether mentions that are not in the training data have figures of their own."""
    return any(figure(system, entry["main_metric"], UNSEEN) for system in scored(entry))


def has_coverage(entry: Entry) -> bool:
    """Tell whether it is counted how many gold concepts are among the targets."""
    return any(coverage(system) for system in scored(entry))


def most_rows(systems: Sequence[Entry], column: Column) -> int | None:
    """Return the greatest n of a column's figures."""
    return max((found["n"] for system in systems if (found := figure(system, *column))), default=None)


def subsets(entry: Entry) -> dict[str, list[str]]:
    """Return the columns that figures are broken down by, and the values of each ("seen" -> ["False", "True"])."""
    found: dict[str, list[str]] = {}
    for system in scored(entry):
        for figure in system["figures"]:
            column, equals, value = figure["subset"].partition("=")
            if equals and value not in found.setdefault(column, []):
                found[column].append(value)
    reported = {figure["subset"].partition("=")[0] for figure in entry["published"]}
    return {
        column: values
        for column, values in found.items()
        if len(values) > 1 or column in reported or column.startswith(f"{MEAN_OF_FOLDS}, ")
    }


def subset_words(column: str, values: Sequence[str]) -> str:
    """Return a column of subsets in words."""
    words = {"seen": "whether the mention was in the training data", "covered": "whether the gold is among the targets"}
    yes_or_no = set(values) <= {"True", "False"}
    return words[column] if column in words and yes_or_no else column.replace("_", " ")


def subset_value(value: str) -> str:
    """Return a subset's value in words."""
    return {"True": "yes", "False": "no"}.get(value, value)


def shared_notes(entry: Entry) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the notes that all systems share, by name, and those that differ: one value a system."""
    systems = scored(entry)
    names = dict.fromkeys(name for system in systems for name in system["notes"])
    values_by_note = {name: [plain(system["notes"].get(name)) for system in systems] for name in names}
    same = {name: values[0] for name, values in values_by_note.items() if len(set(values)) == 1}
    return same, {name: values for name, values in values_by_note.items() if name not in same}


def metrics_by(entry: Entry, column: str) -> list[str]:
    """Return the metrics that are broken down by a column, the main one first."""
    names = dict.fromkeys(
        figure["metric"]
        for system in scored(entry)
        for figure in system["figures"]
        if figure["subset"].startswith(f"{column}=")
    )
    return sorted(names, key=lambda name: name != entry["main_metric"])


def published_by_system(
    entry: Entry, metric: str | None = None, column: str = ""
) -> dict[tuple[str, str], dict[Column, Entry]]:
    """Return the published figures of each system and source: those over all rows, or of `metric` by `column`."""
    rows: dict[tuple[str, str], dict[Column, Entry]] = {}
    for figure in entry["published"]:
        is_part = figure["metric"] == metric and figure["subset"].startswith(f"{column}=")
        if is_part if metric else "=" not in figure["subset"]:
            rows.setdefault((figure["system"], figure["source"]), {})[figure["metric"], figure["subset"]] = figure
    return rows


def provenance(report: Entry) -> dict[str, str]:
    """Return where a report's figures come from, each fact as one line of text."""
    facts = report["provenance"]
    shown = {"commit": facts.get("commit"), "command": " ".join(facts.get("command") or ()) or None}
    shown |= {"terminology": facts.get("config", {}).get("terminology_version")}
    shown |= {"alphita": facts.get("alphita_version")} | {
        key: facts.get(key) for key in ("seed", "machine", "packages")
    }
    return {name: plain(fact) for name, fact in shown.items()}


def heading(column: Column) -> str:
    """Return the heading of a column: "accuracy@1", "accuracy@1, mean of folds"."""
    metric, subset = column
    return metric if subset == ALL else f"{metric}, {subset}"


def difference(system: Entry, metric: str) -> Entry | None:
    """Return how far a system is from the baseline in a metric, None if it was not compared."""
    differences = (system.get("against") or {}).get("differences", ())
    return next((one for one in differences if one["metric"] == metric and one["difference"] is not None), None)


def compared(entry: Entry) -> list[Entry]:
    """Return the systems that were compared with the baseline."""
    return [system for system in scored(entry) if system["against"]]


def compared_metrics(entry: Entry) -> list[str]:
    """Return the metrics in which systems were compared with the baseline."""
    return list(
        dict.fromkeys(
            difference["metric"] for system in compared(entry) for difference in system["against"]["differences"]
        )
    )


def breakdowns(entry: Entry) -> list[dict[str, Any]]:
    """Return the groups of the error analyses that are no subsets of the figures, with the systems' scores by value."""
    systems = {system["name"]: system["errors"] for system in scored(entry) if system["errors"]}
    groups: dict[str, dict[str, dict[str, Entry]]] = {}
    for name, errors in systems.items():
        for by in errors.get("by", ()):
            if by["name"] not in subsets(entry):
                groups.setdefault(by["name"], {})[name] = {group["value"]: group for group in by["groups"]}
    found = []
    for name, of in groups.items():
        metric = systems[next(iter(of))]["metric"]
        values = dict.fromkeys(value for groups_of_system in of.values() for value in groups_of_system)
        found.append(
            {
                "name": name,
                "metric": metric,
                "fraction": metric_of(entry, metric)["fraction"],
                "systems": list(of),
                "rows": {value: [groups_of_system.get(value) for groups_of_system in of.values()] for value in values},
            }
        )
    return found


def case_tables(entry: Entry) -> list[tuple[str, Entry]]:
    """Return the tables that are to be read by eye, system by system under each title."""
    systems = scored(entry)
    titles = dict.fromkeys(title for system in systems for title in system["tables"])
    return [
        (f"{title} ({system['name']})", one)
        for title in titles
        for system in systems
        if (one := system["tables"].get(title))
    ]


def baseline_of(entry: Entry) -> str | None:
    """Return the name of the baseline, None if there is none."""
    return next((system["against"]["baseline"] for system in scored(entry) if system["against"]), None)


def verdict(difference: Entry, *, higher_is_better: bool = True) -> str:
    """Return "better", "worse" or "not told apart": whether 0 lies in the interval of a difference."""
    low, high = difference["low"], difference["high"]
    if low is None or high is None or low <= 0 <= high:
        return "not told apart"
    return "better" if (low > 0) == higher_is_better else "worse"


def number(value: float | None, *, fraction: bool, signed: bool = False) -> str:
    """Return a value as tables print it: a fraction as a percentage with one decimal, else with up to three."""
    if value is None:
        return NONE
    sign = "+" if signed else ""
    if fraction:
        return f"{100 * value:{sign}.1f}"
    decimals = 3 if abs(value) < 10 else 1
    return f"{value:{sign},.{decimals}f}"


def cell(entry: Entry, system: Entry | None, column: Column) -> str:
    """Return a figure of a system with its interval, "41.2 [39.1, 43.3]"."""
    found = figure(system, *column) if system is not None else None
    if found is None:
        return NONE
    fraction = metric_of(entry, column[0])["fraction"]
    return f"{number(found['value'], fraction=fraction)} {interval(found, fraction=fraction)}".strip()


def as_printed(value: float, *, fraction: bool) -> str:
    """Return a published value with the decimals that it was printed with, at least one for a percentage."""
    shown = f"{round(100 * value if fraction else value, 6):.6g}"
    return f"{shown}.0" if fraction and "." not in shown else shown


def interval(figure: Entry, *, fraction: bool, signed: bool = False) -> str:
    """Return the interval of a figure or difference, "[39.1, 43.3]"; empty if it has none."""
    if figure.get("low") is None or figure.get("high") is None:
        return ""
    ends = (number(figure[end], fraction=fraction, signed=signed) for end in ("low", "high"))
    return f"[{', '.join(ends)}]"


def p_value(p: float | None) -> str:
    """Return a p-value with three decimals; resampling cannot give one below `P_FLOOR`."""
    if p is None:
        return NONE
    return f"≤ {P_FLOOR:.3f}" if p <= P_FLOOR else f"{p:.3f}"


def coverage(system: Entry) -> tuple[str, str] | None:
    """Return the share of queries with a gold concept among the targets, and the counts; None if it is not counted."""
    covered, queries = system["notes"].get("covered"), system["notes"].get("queries")
    if covered is None or not queries:
        return None
    return f"{100 * covered / queries:.1f}%", f"{covered:,} of {queries:,}"


def duration(seconds: float) -> str:
    """Return seconds for a reader: "0.84 s", "12 s", "3 min 20 s"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a JSON value as one line of text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: NONE}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {plain(one)}" for key, one in value.items()) or NONE
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(item) for item in value) or NONE
    return str(value)


class Footnotes:
    """Why published numbers cannot simply be laid beside ours: each reason of a benchmark once, numbered."""

    def __init__(self, entry: Entry) -> None:
        self.numbers: dict[str, int] = {}
        for figure in entry["published"]:
            for reason in self._reasons(figure):
                self.numbers.setdefault(reason, len(self.numbers) + 1)

    def of(self, published: Entry) -> list[int]:
        return [self.numbers[reason] for reason in self._reasons(published)]

    def _reasons(self, published: Entry) -> list[str]:
        kinds = (("Protocol differs", published["differs"]), ("Doubtful as printed", published["slip"]))
        return [f"{what}: {reason}" for what, reason in kinds if reason]


def pictures_failed(report: Mapping[str, Any]) -> str:
    """Return why pictures that were asked for are missing; "" if none are."""
    return f"Not drawn: {report['pictures']['not_applicable']}" if "pictures" in report else ""
