"""`alphita calibrate`: an index and held-out strings -> a ranker and calibrated confidence, kept inside the index."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import machine
from alphita.cli._from_spec import with_options
from alphita.errors import UsageError
from alphita.options import Running, group, option

if TYPE_CHECKING:
    from alphita.answer.calibration_store import Calibration
    from alphita.calibrate.from_mappings import InTime
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import Index


@dataclass(frozen=True, kw_only=True)
class CalibrateSpec:
    """Which index to calibrate, and by what."""

    index: Path = option(..., help="Index folder, from 'alphita index'.")
    split: Path | None = option(
        None,
        help="Split that the encoder was trained with; its calibration part is used. Not needed if the encoder was "
        "not trained on this terminology.",
    )
    labels: Path | None = option(
        None, help="Mentions mapped by people: a table with the columns mention and concept_id (NIL: no concept)."
    )
    encoding: str = option("utf-8", help="Encoding of the file of --labels, e.g. cp1252.")
    from_mappings: str | None = option(
        None,
        metavar="STORE",
        help="Review store with labels for the ranker and its confidence; the newest fifth is held out to measure the "
        "gain.",
    )
    carry_from: Path | None = option(
        None,
        "--from",
        help="Instead of fitting, transfer the calibration of another index with the same encoder, or that of a model "
        "(alphita-en) to an index with another model: for a terminology with too few synonyms. Answers are accepted "
        "with a safety margin, none is certified.",
    )
    output: Path | None = option(None, "--output", "-o", help="Folder to create; by default INDEX/calibration.")
    seed: int = option(0, least=0, help="Seed for all random choices.")
    running: Running = group(Running)
    force: bool = option(False, help="Move an existing calibration aside.")


@with_options
def calibrate(spec: CalibrateSpec) -> None:
    """Fit the ranker and its confidence on held-out synonyms, and certify which answers need no review."""
    running = replace(spec.running, threads=machine.set_threads(spec.running.threads))
    from alphita import artefact
    from alphita.answer.calibration_store import FOLDER
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import Index

    if spec.carry_from is not None and (spec.split or spec.labels or spec.from_mappings):
        raise UsageError("--from takes a calibration as it is: --split, --labels and --from-mappings would not be used")
    index = Index.open(spec.index)
    out = spec.output or spec.index / FOLDER
    artefact.refuse_existing(out, spec.force)
    encoder = TermEncoder.load(index.model_path, **asdict(running))
    if spec.carry_from is None:
        _fit(spec, index, encoder, out)
        return
    carried = _carried(index, encoder, spec.carry_from, running.threads)
    carried.save(out, force=spec.force)
    origin = carried.fields["carried_over_from"]["population"]
    print(f"taken over: its confidence was fitted on {origin}; here it is estimated, not certified")
    for error, threshold in carried.accept.items():
        at = "nothing is accepted" if threshold is None else f"accepted from a confidence of {threshold:.4f} on"
        print(f"{error:>8.1%}  {at}")
    print(f"calibration: {out}")


def _fit(spec: CalibrateSpec, index: Index, encoder: TermEncoder, out: Path) -> None:
    """Fit a calibration, and say what was gained on the decisions held out, if decisions are learned from."""
    from alphita.answer.normalizer import Normalizer
    from alphita.calibrate import from_mappings as learning
    from alphita.calibrate.examples import read_labels
    from alphita.calibrate.fitting import fit
    from alphita.terminology.splits import Split

    labels = [] if spec.labels is None else read_labels(spec.labels, spec.encoding)
    decisions = None if spec.from_mappings is None else _decisions(spec.from_mappings)
    if decisions is not None:
        labels += learning.labels(decisions.learned)
        before = learning.found_right(Normalizer(index, encoder=encoder), decisions.held_out)
    split = None if spec.split is None else Split.load(spec.split)
    fitted = fit(index, lambda: encoder, split=split, labels=labels, seed=spec.seed)
    # The calibration comes last: where it is, its report is.
    if decisions is not None:
        after = learning.found_right(Normalizer(index, encoder=encoder, calibration=fitted), decisions.held_out)
        _tell_gain(out, decisions, {"before": before, "after": after}, fitted.figures["nil"], seed=spec.seed)
    fitted.save(out, force=spec.force)
    print(_text(fitted, out))


def _carried(index: Index, encoder: TermEncoder, source: Path, threads: int | None) -> Calibration:
    """Return the calibration of an index that was calibrated, or of a model, by folder or name."""
    from alphita.calibrate.transfer import adapt, carry_over
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.encoding import CALIBRATION
    from alphita.index.store import Index

    if not source.is_dir() or (source / "config.json").is_file():
        other = TermEncoder.load(str(source), threads=threads)
        return adapt(index, other, other.folder / CALIBRATION)
    return carry_over(index, lambda: encoder, Index.open(source))


def _decisions(reviews: str) -> InTime:
    from alphita.calibrate.from_mappings import in_time
    from alphita.review.store import ReviewStore

    with ReviewStore.open(reviews) as store:
        return in_time(store)


def _tell_gain(
    out: Path, decisions: InTime, gained: dict[str, dict[str, float]], nil: dict[str, Any], *, seed: int
) -> None:
    """Write OUT.report.json, what was gained on the decisions held out, and print it."""
    from alphita import report

    counts = {"learned": len(decisions.learned), "held_out": len(decisions.held_out), "left_out": decisions.left_out}
    path = out.with_name(f"{out.name}.report.json")
    report.write(path, {"decisions": counts, "held_out": gained, "nil": nil}, provenance=report.provenance(seed=seed))
    print(f"on the newest {len(decisions.held_out):,} decisions, which were held out:")
    for name, figures in gained.items():
        print(f"  {name:<8} " + "  ".join(f"{key} {value:.3f}" for key, value in figures.items() if key != "n"))
    print(f"report: {path}")


def _text(fitted: Calibration, out: Path) -> str:
    from alphita.calibrate.risk_coverage import RiskCoverage

    figures: dict[str, Any] = dict(fitted.figures)
    lines = [f"measured on {figures['population']}", "", "ranking       accuracy@1  accuracy@5"]
    for name, row in figures["rankings"].items():
        lines.append(f"{name:12}  {row['accuracy@1']:9.1%}  {row['accuracy@5']:9.1%}")
    nil = figures["nil"]
    seen = ", ".join(f"{share:.1%} of the {kind} strings" for kind, share in nil["recognised"].items())
    lines += ["", f"NIL: recognised {seen}; lost {nil['lost']:.1%} of those that name a concept", nil["error"], ""]
    error = figures["calibration"]["expected_calibration_error"]
    lines.append(RiskCoverage.from_json(figures["risk_coverage"]).text())
    lines += [
        f"{float(allowed):>8.1%} {row['threshold']:>10.4f} {row['share']:>8.1%}  estimated, not certified: too "
        f"little was tested; {row['wrong']:,} of the accepted are wrong"
        for allowed, row in figures["estimated"].items()
    ]
    lines.append(f"expected calibration error {error['value']:.3f} [{error['low']:.3f}, {error['high']:.3f}]")
    lines.append(f"calibration: {out}")
    return "\n".join(lines)
