from __future__ import annotations

from pathlib import Path

import pytest

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita_lab.training.engine import runs
from alphita_lab.training.engine.run import duration
from alphita_lab.training.engine.runs import Phase, Phases, manifest_fields

FACTS = {"recipe": "r", "seed": 1}


def model(phase: Phase, figures: dict[str, float], facts: dict[str, object] = FACTS) -> Path:
    with artefact.create(phase.out, "model", force=phase.force) as draft:
        (draft.path / "weights").write_text("w")
        draft.fields.update(manifest_fields(phase, facts, figures))
    return phase.out


def phases(out: Path, *, resume: bool = False, force: bool = False, dry_run: bool = False) -> Phases:
    return Phases(out, ["one", "two", "three"], resume=resume, force=force, dry_run=dry_run)


def test_all_but_the_last_lie_in_a_folder_beside_the_model(tmp_path: Path) -> None:
    run = phases(tmp_path / "m")
    assert [run[name].out for name in ("one", "two", "three")] == [
        tmp_path / "m.phases" / "one",
        tmp_path / "m.phases" / "two",
        tmp_path / "m",
    ]
    assert "two" in run
    assert "four" not in run
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_tells_the_figures_of_all_phases_so_far(tmp_path: Path) -> None:
    run = phases(tmp_path / "m")
    model(run["one"], {"loss": 1.0})
    assert run.add("one", {"loss": 1.0}, "base") == tmp_path / "m.phases" / "one"
    manifest = artefact.verify(model(run["two"], {"loss": 2.0}), "model")
    assert manifest["phases"] == {"one": {"loss": 1.0}, "two": {"loss": 2.0}}
    assert manifest["figures"] == {"loss": 2.0}
    assert manifest["fingerprint"] == runs.fingerprint(FACTS)


def test_a_dry_run_goes_on_from_what_it_started_from(tmp_path: Path) -> None:
    run = phases(tmp_path / "m", dry_run=True)
    run.check()
    assert run.add("one", {}, "base") == "base"
    assert run["two"].dry_run


def test_a_finished_phase_is_not_done_again_and_only_by_the_same_run(tmp_path: Path) -> None:
    first = phases(tmp_path / "m")
    model(first["one"], {"loss": 1.0})
    assert first["one"].finished(runs.fingerprint(FACTS)) is None
    again = phases(tmp_path / "m", resume=True)
    assert again["one"].finished(runs.fingerprint(FACTS)) == {"loss": 1.0}
    assert again["two"].finished(runs.fingerprint(FACTS)) is None
    with pytest.raises(InputError, match=r"m.phases/one: the unfinished run had another recipe, config"):
        again["one"].finished(runs.fingerprint({**FACTS, "seed": 2}))


def test_what_an_earlier_run_left_is_refused_resumed_or_moved_aside(tmp_path: Path) -> None:
    model(phases(tmp_path / "m")["one"], {})
    with pytest.raises(UsageError, match=r"m.phases holds the phases of an earlier run; go on with --resume"):
        phases(tmp_path / "m").check()
    phases(tmp_path / "m", dry_run=True).check()
    phases(tmp_path / "m", resume=True).check()
    assert (tmp_path / "m.phases" / "one").is_dir()
    phases(tmp_path / "m", force=True).check()
    assert not (tmp_path / "m.phases").exists()
    assert (tmp_path / "m.phases.old-1" / "one" / "weights").is_file()
    model(phases(tmp_path / "m")["one"], {})
    phases(tmp_path / "m", force=True).check()
    assert (tmp_path / "m.phases.old-2").is_dir()


def test_a_finished_model_is_refused_unless_forced(tmp_path: Path) -> None:
    model(phases(tmp_path / "m")["three"], {})
    for resume in (False, True):
        with pytest.raises(UsageError, match="m already exists"):
            phases(tmp_path / "m", resume=resume).check()
    forced = phases(tmp_path / "m", force=True)
    forced.check()
    assert forced["three"].force
    assert not forced["one"].force


def test_what_a_run_is_to_replace_is_not_its_last_phase(tmp_path: Path) -> None:
    model(phases(tmp_path / "m")["three"], {"loss": 3.0})
    model(phases(tmp_path / "m")["one"], {"loss": 1.0})
    with pytest.raises(UsageError, match="m already exists; use --resume --force if the unfinished run"):
        phases(tmp_path / "m", resume=True).check()
    again = phases(tmp_path / "m", resume=True, force=True)
    again.check()
    fingerprint = runs.fingerprint({**FACTS, "seed": 2})
    assert again["three"].finished(fingerprint) is None
    assert again["three"].finished(runs.fingerprint(FACTS)) == {"loss": 3.0}
    assert again["one"].finished(runs.fingerprint(FACTS)) == {"loss": 1.0}
    with pytest.raises(InputError, match=r"m.phases/one: the unfinished run had another recipe"):
        again["one"].finished(fingerprint)
    (tmp_path / "m" / "manifest.json").unlink()
    assert again["three"].finished(fingerprint) is None


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 seconds"), (119, "119 seconds"), (120, "2.0 minutes"), (7200, "2.0 hours"), (200_000, "2.3 days")],
)
def test_durations_are_told_as_one_reads_them(seconds: float, told: str) -> None:
    assert duration(seconds) == told
