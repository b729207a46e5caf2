"""Every script of the papers on UMLS runs to its end on a small made-up release, with 20 steps of each training."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.runs import umls_release
from tests.tiny import tiny_model

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "benchmarks"
STEPS = "20"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with META, an encoder, and data in the benchmarks' public layouts."""
    folder = tmp_path_factory.mktemp("given")
    umls_release.write(folder / "META")
    pickled(tiny_model(folder / "encoder"))
    data = folder / "data"
    shutil.copytree(FIXTURES, data, ignore=shutil.ignore_patterns("open_cui_names.tsv"))
    (data / "biosyn" / "meddra.txt").unlink()
    for benchmark in ("mantra", "xl_bel"):
        shutil.rmtree(data / benchmark)
    cui, *named = next(umls_release.findings())
    mention = umls_release.italian_of(*named)
    unit = data / "mantra" / "Mantra-GSC" / "Spanish" / "Medline_EN_ES_ec22-cui-best_man" / "1_d1.u1.ann"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"T1\t{cui} 0 {len(mention)}\t{mention}\n")
    (data / "xl_bel").mkdir()
    for language in ("de", "en", "es"):
        (data / "xl_bel" / f"{language}_1k_test_query.txt").write_text(f"{cui}||{mention}\n")
    text = [
        f"Il paziente ha {umls_release.italian_of(*rest)} da una settimana." for _, *rest in umls_release.findings()
    ]
    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.txt").write_text("\n".join(text * 3))
    # Definitions as AGCT's are published.
    some = [" ".join(rest[:2]) + f" of the {rest[2]}" for _, *rest in umls_release.findings()]
    texts = [f'"{name}" refers to a state of the body that number {n} is given to.' for n, name in enumerate(some)]
    (folder / "train.txt").write_text("\n".join(texts) + "\n")
    concepts = dict.fromkeys(cui for cui, _ in umls_release.names())
    (folder / "vectors.csv").write_text("".join(f"{one},{place % 7},1\n" for place, one in enumerate(concepts)))
    return folder


ABSENT = "nobody/absent"
"""A hub's model that cannot be had: it is a row \"not scored\", and everything else goes on."""


def pickled(folder: Path) -> Path:
    """Turn a model's weights into a pickle, as many published checkpoints have nothing else; return the folder."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def not_scored(report: Path) -> dict[str, str]:
    """Return why systems are not scored, by name."""
    entries = json.loads((report / "report.json").read_text(encoding="utf-8"))["benchmarks"]
    return {one["name"]: one["not_applicable"] for entry in entries for one in entry["systems"] if one.get("missing")}


def run(script: str, *words: Path, **environment: str) -> str:
    """Run a script with this checkout's program and return what it said on stderr; it must end well."""
    python = f"{sys.executable} -m alphita"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = {
        "ALPHITA": python,
        "PYTHON": sys.executable,
        "PATH": path,
        "STEPS": STEPS,
        "HF_HUB_OFFLINE": "1",
        **environment,
    }
    command = ["bash", str(ROOT / "runs" / script), *map(str, words)]
    done = subprocess.run(command, env=os.environ | made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stderr


def scored(report: Path) -> dict[str, set[str]]:
    """Return the systems that a report has figures of, by benchmark."""
    entries = json.loads((report / "report.json").read_text(encoding="utf-8"))["benchmarks"]
    return {entry["name"]: {one["name"] for one in entry["systems"] if one.get("figures")} for entry in entries}


def steps_of(model: Path) -> int:
    return int(json.loads((model / "training.json").read_text(encoding="utf-8"))["config"]["steps"])


SMALL = "k=16 m=2 accumulation=1 warmup_steps=2"
FIRST = "batch_terms=32 accumulation=1 warmup_steps=2"


@pytest.mark.parametrize("name", ["coder_eng", "coder_all", "coder_transe_eng", "coder_transe_all"])
def test_coder(given: Path, tmp_path: Path, name: str) -> None:
    out, encoder = tmp_path / "out", str(given / "encoder")
    said = run(
        f"{name}_umls.sh",
        given / "META",
        out,
        given / "data",
        ENCODER=encoder,
        SETTINGS=FIRST if "transe" in name else SMALL,
        ALPHITA_CACHE=str(tmp_path / "cache"),
        BASELINES=f"{encoder} {ABSENT}",
        VECTORS=f"concept_vectors:{given / 'vectors.csv'},prefix=UMLS,name=cui2vec",
    )
    assert "left out" not in said
    assert "pytorch_model.bin (sha256" in said
    assert steps_of(out / "model") == int(STEPS)
    both = {"cls", "mean", "encoder cls", "encoder mean"}
    assert {"absent cls", "absent mean"} == not_scored(out / "mcsm").keys()
    assert "could not fetch the encoder" in not_scored(out / "mcsm")["absent cls"]
    assert scored(out / "mcsm")["mcsm"] == {*both, "cui2vec"}
    reports = ["mcsm_types", "cadec", "psytar", "cases", *(["mantra"] if "all" in name else [])]
    for report in reports:
        assert both <= next(iter(scored(out / report).values())), report
    assert {"cls", "encoder cls"} <= scored(out / "relation_classification")["relation_classification"]
    assert (out / "pictures" / "by_concept.png").is_file()
    assert (out / "pictures" / "by_type.png").is_file()


def test_biolord_and_its_multilingual_student(given: Path, tmp_path: Path) -> None:
    out, encoder, data = tmp_path / "out", str(given / "encoder"), given / "data"
    run(
        "biolord_umls.sh",
        given / "META",
        out,
        data,
        ENCODER=encoder,
        SCORED=str(data / "sts" / "stsb-en-dev.csv"),
        TRIPLES=str(data / "mednli_s" / "mli_test_v1.jsonl"),
        GENERATED=str(given / "train.txt"),
        SETTINGS=f"steps={STEPS} dim=8 seeds=2 batch=16 max_length=48 adapt_batch=2",
        BASELINES=f"{encoder} {ABSENT}",
    )
    wanted = {"STAMB2", "adapted", "contrasted", "contrasted_adapted", "distilled_0", "soup", "encoder cls"}
    for report in ("sts", "relatedness", "mednli_s", "biosyn"):
        assert scored(out / report) == {report: wanted}
    many = json.loads((out / "model.phases" / "contrasted" / "training.json").read_text(encoding="utf-8"))
    assert many["config"]["descriptions"] == 8
    assert many["texts"]["generated"] > 0
    assert "absent cls" in not_scored(out / "sts")

    student = tmp_path / "student"
    run(
        "biolord_multilingual_umls.sh",
        given / "META",
        out / "model",
        student,
        data,
        ENCODER=encoder,
        LANGUAGES="es,fr,it",
        SETTINGS=f"steps={STEPS} batch=8 max_length=48",
        BASELINES=f"{encoder} {ABSENT}",
    )
    for report in ("sts", "relatedness", "mednli_s", "biosyn", "xl_bel"):
        assert scored(student / report) == {report: {"BioLORD-2023-M", "teacher", "encoder cls"}}


def test_italian(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(
        "italian_umls.sh",
        given / "META",
        given / "corpus",
        out,
        given / "data",
        ENCODER=str(given / "encoder"),
        ROWS="base,ext,v1,v2,v3,injected,pipelined",
        GRAPH="epochs=2 dim=8 batch_size=32 rare=1",
        EXT="vocabulary=200 batch=4",
        MARGIN="prototypes=2 accumulation=1",
        INJECTION="batch=2 nearest=20",
        BASELINES=f"{given / 'encoder'} {ABSENT}",
    )
    table = json.loads((out / "table.json").read_text(encoding="utf-8"))
    names = [row["name"] for row in table["rows"]]
    assert names[:7] == ["base", "ext", "v1", "v2", "v3", "injected", "pipelined"]
    assert len(names) == 9
    beside, absent = table["rows"][7:]
    assert beside["figures"]["mcsm"] == table["rows"][0]["figures"]["mcsm"]
    assert absent["figures"] == {}
    assert "nobody/absent: not scored, could not fetch" in (out / "table.md").read_text(encoding="utf-8")
    assert {row["name"] for row in table["graphs"]} == {"transe", "complex", "rotate", "simple"}
    assert {"mcsm", "f1", "mayo", "umnsrs"} <= set(table["rows"][0]["figures"])


def test_the_ablation(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(
        "coder_ablation_umls.sh",
        given / "META",
        out,
        ENCODER=str(given / "encoder"),
        SETTINGS="accumulation=1 warmup_steps=2",
        BASELINES="",
        ROWS="coder_transe_similarity ms_rel_sty",
    )
    for row in ("coder_transe_similarity", "ms_rel_sty"):
        assert scored(out / row / "mcsm")["mcsm"] == {"cls", "mean"}


def test_biolord_stops_where_what_the_paper_trains_on_is_missing(given: Path, tmp_path: Path) -> None:
    command = ["bash", str(ROOT / "runs" / "biolord_umls.sh"), str(given / "META"), str(tmp_path / "out")]
    environment = {name: value for name, value in os.environ.items() if name not in ("SCORED", "TRIPLES", "GENERATED")}
    done = subprocess.run(
        command, env=environment | {"LEAVE_OUT": "TRIPLES"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "SCORED  scored sentences: stsb-en-train.csv" in done.stderr
    assert "huggingface.co/datasets/FremyCompany/AGCT-Dataset" in done.stderr
    assert "TRIPLES  MedNLI" not in done.stderr


RELEASED = (
    "GanjinZero/coder_eng",
    "GanjinZero/coder_all",
    "FremyCompany/BioLORD-2023",
    "microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract",
)


def test_released_weights_are_scored_on_every_benchmark_that_is_there(given: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    for name in RELEASED:
        shutil.copytree(given / "encoder", models / name)
    out = tmp_path / "out"
    run("released.sh", given / "data", out, MODELS=str(models), OURS="alphita-en")
    entries = json.loads((out / "report.json").read_text(encoding="utf-8"))["benchmarks"]
    ran = {entry["name"]: entry for entry in entries if entry["not_run"] is None}
    assert {"cadec", "psytar", "sts", "relatedness", "mednli_s", "biosyn"} <= ran.keys()
    of = scored(out)["psytar"]
    assert {"coder_eng cls", "coder_eng mean", "coder_eng legacy_coder", "BioLORD-2023", "alphita-en"} <= of
    assert {"BioLORD-2023-C", "SapBERT-from-PubMedBERT-fulltext cls"} <= not_scored(out).keys()
    assert any(figure["system"].startswith("CODER") for figure in ran["psytar"]["published"])
    assert "BioLORD-2023-C" in (out / "report.md").read_text(encoding="utf-8")
