"""The model that comes with Alphita, models/alphita-en, made of the encoder minilm: int8 alone, with its hashes.

    python bench/default_model.py -o models/alphita-en

Its calibration is made by runs/alphita_en.sh, which calls this.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import KIND

SOURCE = "minilm"
ORIGIN = {
    "name": "sentence-transformers/all-MiniLM-L6-v2", "licence": "Apache-2.0",
    "url": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
}  # fmt: skip
# What opens a model in int8 alone; the rest of a saved folder is for torch and its libraries.
FILES = ("config.json", "alphita.json", *layout.TOKENIZER_FILES, "tokenizer.json", layout.ONNX_FILES["int8"])


def write(out: Path, *, force: bool = False) -> None:
    """Write the model folder: what runs in int8, without the weights for torch."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder)
        encoder = TermEncoder.load(SOURCE, precision="fp32", device="cpu")
        encoder.save(whole, onnx=True)
        with artefact.create(out, KIND, force=force) as draft:
            for name in FILES:
                if (whole / name).is_file():
                    (draft.path / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(whole / name, draft.path / name)
            settings = draft.path / layout.SETTINGS
            facts = json.loads(settings.read_text(encoding="utf-8"))
            facts |= {"full_precision": SOURCE, "opens_with": "alphita.TermEncoder.load only"}
            settings.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            draft.fields.update({"made_from": ORIGIN, "precision": "int8"})


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--force", action="store_true", help="move an existing folder aside")
    arguments = parser.parse_args()
    write(arguments.output, force=arguments.force)


if __name__ == "__main__":
    main()
