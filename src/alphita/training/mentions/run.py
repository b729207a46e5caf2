"""The rows that a run trains on where names may have contexts: see `terms.run` for the names.

with tagged(encoder, "x.mentions", split, seed=0) as start:
    run = Run("kge_margin", phase, config, start.encoder)
    names, _ = begin(run, terminology, split)
    rows = start.rows(run, names, terminology, contexts=4, bare=True)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita.encoder import layout
from alphita.encoder.tags import with_tags
from alphita.errors import InputError
from alphita.training.mentions.rows import MentionRows, mention_rows
from alphita.training.mentions.steps import MentionForward
from alphita.training.mentions.store import Mentions, check_split

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita.training.engine.run import Run
    from alphita.training.terms.names import TrainingNames


@dataclass(frozen=True)
class MentionStart:
    """An encoder that knows the tags around a mention in its context.

    Attributes:
        encoder: what training starts from.
        tags: ids of [M_s] and [M_e] in it; None where no row has a context.
        mentions: the contexts; None: names train without.
    """

    encoder: str
    tags: tuple[int, int] | None = None
    mentions: Mentions | None = None

    def rows(
        self, run: Run, names: TrainingNames, terminology: Terminology, *, contexts: int, bare: bool
    ) -> tuple[MentionRows, MentionForward]:
        """Return what trains, and what gives the vector of a row's mention, with gradients.

        Args:
            run: of this encoder; its `forward` becomes the second of these.
            names: that train.
            terminology: whose names they are.
            contexts: windows of a name at most.
            bare: whether names train by themselves beside the windows.

        Raises:
            InputError: a window is too long for the encoder.
        """
        config = run.config
        run.forward = forward = MentionForward(
            run.encoder, self.tags, precision=config.precision, dropout=config.dropout
        )
        rows = mention_rows(
            names,
            run.encoder,
            terminology,
            self.mentions,
            tags=self.tags,
            contexts=contexts,
            bare=bare,
            seed=config.seed,
        )
        if self.mentions is not None:
            run.facts["mentions"] = self.mentions.content_hash
            _check_length(rows, run.encoder, self.mentions)
        for reason, count in rows.left_out.items():
            if count:
                run.say(f"left out: {count:,} {reason}")
        return rows, forward


@contextmanager
def tagged(encoder: str, mentions: str, split: Split | None, *, seed: int) -> Iterator[MentionStart]:
    """Open mentions and give the encoder their tags, in a folder that is there until the end.

    Args:
        encoder: what training starts from.
        mentions: the artefact of mentions; "": names train without contexts.
        split: what is held out.
        seed: of the tags' embeddings.

    Raises:
        InputError: the mentions are of another tokenizer or split.
    """
    if not mentions:
        yield MentionStart(encoder)
        return
    opened = Mentions.load(mentions)
    check_split(opened, split)
    with tempfile.TemporaryDirectory() as folder:
        start = with_tags(encoder, Path(folder), seed=seed)
        if opened.manifest["tokenizer_hash"] not in start.tokenizer_hashes:
            raise InputError(
                "its tokens are of another tokenizer than the encoder's",
                file=mentions,
                remedy=f"make it again with this encoder: alphita mentions CORPUS --encoder {encoder}",
            )
        yield MentionStart(start.encoder, start.ids, opened)


def _check_length(rows: MentionRows, encoder: TermEncoder, mentions: Mentions) -> None:
    longest = int((rows.tokens.offsets[1:] - rows.tokens.offsets[:-1]).max())
    if layout.read(encoder.folder, max_length=longest)[1].max_length < longest:
        raise InputError(
            f"its longest window has {longest} tokens, more than the encoder has positions for",
            file=mentions.path,
            remedy="make it again with a smaller --window",
        )
