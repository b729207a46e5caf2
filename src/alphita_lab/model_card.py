"""What a model's folder tells its readers: README.md, its card; training.html and training.png, the curves of its run.

They lie beside what the manifest seals, for a card is to be edited before a model is given away.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import artefact, registry
from alphita.errors import AlphitaError, require
from alphita.progress import duration
from alphita_lab.evaluation.report import charts, page
from alphita_lab.training.engine.settings import TermTraining

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

Series = tuple[list[float], list[float]]
# Of the log: what the curves leave out, for it tells of the machine.
MACHINE = ("rows_per_second", "idle_share", "steps_per_second", "gradient_norm")
RECIPES = "alphita_lab.recipes"


def write(out: Path, encoder: str, terminology: Terminology | None) -> None:
    """Write the card and the curves of the model in `out`, trained from `encoder` on `terminology`.

    A plug-in's model that has no manifest or no log gets none.
    """
    if not (out / artefact.MANIFEST).is_file() or not (out / "log.jsonl").is_file():
        return
    manifest = artefact.open_manifest(out, "model")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    drawn = curves(log)
    title = f"{out.name}: {manifest['recipe']}"
    with artefact.atomic_file(out / "training.html", "w") as file:
        file.write(page.around(title, _charts(drawn)))
    if importlib.util.find_spec("matplotlib") is not None:
        _picture(drawn, title, out / "training.png")
    with artefact.atomic_file(out / "README.md", "w") as file:
        file.write(card(out, encoder, manifest, terminology, seconds(log)))


def push(out: Path, name: str) -> str:
    """Upload a model's folder to `owner/name` on the hub, made private if it is new; return its address.

    Any `--model` takes that name then.

    Raises:
        AlphitaError: the hub refuses, or cannot be reached.
    """
    hub = require("huggingface_hub", "train")
    try:
        address = hub.create_repo(name, private=True, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=out, commit_message=f"alphita: {out.name}")
    except Exception as error:
        # The hub's client raises many kinds: offline, no token, no permission, a bad name.
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        remedy = f"log in by `hf auth login`, then: hf upload {name} {out}"
        raise AlphitaError(f"{out} is whole, but could not be pushed to {name!r}: {first_line}; {remedy}") from error
    return str(address)


def curves(log: Sequence[Mapping[str, float]]) -> dict[str, dict[str, Series]]:
    """Return the curves of a log's lines, {chart: {name: (steps, values)}}: losses, dev scores, learning rate."""
    found: dict[str, dict[str, Series]] = {"loss": {}, "dev score": {}, "learning rate": {}}
    for line in log:
        for name, value in line.items():
            if name in ("step", *MACHINE) or "step" not in line or not isinstance(value, int | float):
                continue
            kind = "learning rate" if name == "learning_rate" else "loss" if "loss" in name else "dev score"
            steps, values = found[kind].setdefault(name, ([], []))
            steps.append(line["step"])
            values.append(value)
    return {kind: series for kind, series in found.items() if series}


def seconds(log: Sequence[Mapping[str, float]]) -> float:
    """Return how long the steps took, dev scores and checkpoints apart."""
    spent, last = 0.0, 0.0
    for line in log:
        if line.get("steps_per_second"):
            spent += (line["step"] - last) / line["steps_per_second"]
            last = line["step"]
    return spent


def card(out: Path, encoder: str, manifest: Mapping[str, Any], terminology: Terminology | None, spent: float) -> str:
    """Return the card of a model as Markdown, with the hub's fields at its head."""
    recipe = registry.load(RECIPES, manifest["recipe"]) if manifest["recipe"] in registry.names(RECIPES) else None
    sources = terminology.manifest.get("sources", ()) if terminology is not None else ()
    head = {"library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity", "base_model": str(encoder)}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "tags: [alphita, medical]", "---"]
    lines += [f"# {out.name}", "", f"A term encoder: strings to vectors. Trained by the recipe `{manifest['recipe']}`."]
    lines += ["", "```python", "from alphita import TermEncoder", f'TermEncoder.load("{out.name}").encode(["fever"])']
    lines += ["```", "", "`SentenceTransformer` opens the folder too, and gives the same vectors.", "", "## Data", ""]
    for source in sources:
        version = source.get("version") or "not stated"
        lines.append(f"- {source.get('name')}: version {version}; licence: {source.get('licence') or 'not stated'}")
    lines += [f"- terminology (content hash): `{manifest.get('terminology')}`"] if manifest.get("terminology") else []
    lines.append(f"- held out: the split `{manifest['split']}`" if manifest.get("split") else "- held out: nothing")
    # A soup has no start of its own.
    hashed = f" (content hash `{manifest['encoder']}`)" if "encoder" in manifest else ""
    lines.append(f"- started from: `{encoder}`{hashed}")
    lines += ["", "The licences of the data may bind what you do with the model.", "", "## Recipe", ""]
    if recipe is not None:
        lines += [f"{(recipe.__doc__ or '').strip().splitlines()[0]} {recipe.CITATION}", ""]
    lines += [
        "Settings other than the recipe's own:" if (changed := _changed(recipe, manifest)) else "Its own settings."
    ]
    lines += [f"- `{key}={value}`" for key, value in changed.items()]
    lines += ["", "## Figures", "", "Of the run itself, on what it held out; `alphita evaluate` gives others.", ""]
    lines += [f"- {name}: {value:.4g}" for name, value in manifest["figures"].items() if name not in MACHINE]
    where = manifest.get("computed", {})
    told = "; ".join(f"{key}: {value}" for key, value in where.items() if key != "flags")
    lines += ["", "## Training", "", f"{duration(spent)} of steps, dev scores apart. {told}."]
    lines += [f"Seed {manifest['seed']}; alphita {manifest['alphita_version']}; made {manifest['created']}.", ""]
    lines += ["![Curves](training.png)", ""] if (out / "training.png").exists() else []
    return "\n".join(lines)


def _changed(recipe: Any, manifest: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a module
    fields = recipe.Config.model_fields if recipe is not None else TermTraining.model_fields
    return {
        key: value
        for key, value in manifest["config"].items()
        if key not in fields or fields[key].get_default(call_default_factory=True) != value
    }


def _charts(drawn: Mapping[str, Mapping[str, Series]]) -> str:
    shown = [charts.lines(series, title=kind, x_label="step", y_label=kind) for kind, series in drawn.items()]
    return f'<div class="charts">{"".join(shown)}</div>'


def _picture(drawn: Mapping[str, Mapping[str, Series]], title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * max(1, len(drawn)), 3.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for place, (kind, series) in enumerate(drawn.items(), 1):
        axes = figure.add_subplot(1, len(drawn), place)
        for name, (steps, values) in series.items():
            axes.plot(steps, values, label=name, marker="." if len(steps) < 30 else "")
        axes.set(xlabel="step", title=kind)
        axes.legend(fontsize=8)
    figure.suptitle(title)
    with artefact.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png")
