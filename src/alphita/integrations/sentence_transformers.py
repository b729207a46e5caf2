"""A model that sentence-transformers has no modules for, as a module of it: int8 alone, injected entities, a head.

`SentenceTransformer(folder)` opens such a folder where Alphita is installed, by its modules.json, with the vectors of
`TermEncoder.load(folder)`. It encodes only: to train, take the weights that torch reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alphita.encoder.encoder import TermEncoder
from alphita.errors import MissingExtra

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtra("torch", "train") from None


class EncoderModule(torch.nn.Module):
    """A `TermEncoder` between strings and their vectors."""

    # Its files lie beside modules.json.
    save_in_root = True

    def __init__(self, encoder: TermEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    @classmethod
    def load(cls, model_name_or_path: str, **_: Any) -> EncoderModule:  # noqa: ANN401 - of any loader
        """Open a model folder or a model of the hub."""
        return cls(TermEncoder.load(model_name_or_path))

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the strings as they are: the encoder reads them in batches of its own."""
        return {"strings": list(texts)}

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Add `sentence_embedding`, (n, dim) float32."""
        return features | {"sentence_embedding": torch.from_numpy(self.encoder.encode(features["strings"]))}

    def get_sentence_embedding_dimension(self) -> int:
        return self.encoder.dim

    @property
    def max_seq_length(self) -> int:
        """Tokens a string, special ones counted."""
        return self.encoder.max_length

    def save(self, output_path: str, *_: Any, **__: Any) -> None:  # noqa: ANN401 - of any saver
        self.encoder.save(Path(output_path))
