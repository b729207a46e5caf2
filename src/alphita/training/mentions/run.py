"""One training run on mentions: what `TermRun` is for names, with rows of tokens that may have a context.

run = MentionRun("kge_margin", config, terminology, encoder, out, mentions="x.mentions", split=split, ...)
... the recipe's data and objective, from run.rows: `draw` and `loss` ...
return run.train(draw, loss, Length(...), before_step=..., fence=...)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from alphita.encoder import layout
from alphita.encoder.tags import with_tags
from alphita.errors import InputError
from alphita.training.engine.loop import Length
from alphita.training.engine.settings import TermTraining
from alphita.training.mentions.rows import MentionRows, mention_rows
from alphita.training.mentions.steps import MentionForward
from alphita.training.mentions.store import Mentions, check_split
from alphita.training.terms.batches import BatchLoss, Draw
from alphita.training.terms.run import TermRun

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


class MentionRun(TermRun):
    """A run: its encoder, its rows, its folder; see `TermRun` for the rest.

    Attributes:
        forward: gives the vector of a row's mention, with gradients.
        rows: what trains.
        tags: ids of [M_s] and [M_e] in the encoder; None where no row has a context.
    """

    forward: MentionForward

    def __init__(
        self,
        recipe: str,
        config: TermTraining,
        terminology: Terminology,
        encoder: str,
        out: Path,
        *,
        mentions: str,
        contexts: int,
        bare: bool,
        split: Split | None,
        resume: bool,
        force: bool,
        dry_run: bool,
    ) -> None:
        """Open encoder, names and mentions; nothing is written yet.

        Args:
            recipe: its name; so are config, terminology, encoder and out as for `TermRun`.
            mentions: the artefact of mentions; "": names train without contexts.
            contexts: windows of a name at most; 0: none.
            bare: whether names train by themselves beside the windows.
            split: what is held out; so are resume, force and dry_run as for `TermRun`.

        Raises:
            InputError: as `TermRun`; or the mentions are of another tokenizer or split, or too long for the encoder.
            UsageError: as `TermRun`.
        """
        opened = Mentions.load(mentions) if mentions and contexts else None
        self.tags: tuple[int, int] | None = None
        if opened is not None:
            check_split(opened, split)
            self._tagged = tempfile.TemporaryDirectory()
            tagged = with_tags(encoder, Path(self._tagged.name), seed=config.seed)
            if opened.manifest["tokenizer_hash"] not in tagged.tokenizer_hashes:
                raise InputError(
                    "its tokens are of another tokenizer than the encoder's",
                    file=mentions,
                    remedy=f"make it again with this encoder: alphita mentions CORPUS --encoder {encoder}",
                )
            encoder, self.tags = tagged.encoder, tagged.ids
        super().__init__(
            recipe, config, terminology, encoder, out, split=split, resume=resume, force=force, dry_run=dry_run
        )
        self.forward = MentionForward(self.encoder, self.tags, precision=config.precision, dropout=config.dropout)
        self.rows: MentionRows = mention_rows(
            self.names,
            self.encoder,
            terminology,
            opened,
            tags=self.tags,
            contexts=contexts,
            bare=bare,
            seed=config.seed,
        )
        # Artefacts go by their hashes, here and in `depends_on`; where they lie may change until the run goes on.
        decisive = cast(dict[str, object], self._facts["config"])
        self._facts["config"] = {name: value for name, value in decisive.items() if name not in ("mentions", "graph")}
        if opened is not None:
            self._facts["mentions"] = opened.content_hash
            self._check_length(opened)
        for reason, count in self.rows.left_out.items():
            if count:
                self.say(f"left out: {count:,} {reason}")

    def depends_on(self, **facts: object) -> None:
        """Note what else the result depends on, such as the hash of an artefact."""
        self._facts |= facts

    def train(
        self,
        draw: Draw,
        loss: BatchLoss,
        length: Length,
        *,
        fields: Mapping[str, Any] | None = None,
        before_step: Callable[[int], None] | None = None,
        fence: int = 0,
    ) -> dict[str, float]:
        """Train on rows; see `TermRun.fit`."""
        return self.fit(
            draw,
            loss,
            fields=fields,
            before_step=before_step,
            fence=fence,
            length=length,
            tokens=self.rows.tokens,
            name=self._name,
        )

    def _name(self, row: int) -> str:
        return self.names.strings[self.rows.names[row]]

    def _sizes(self) -> str:
        windows = self.rows.windows
        return f"{super()._sizes()}; mentions: {windows:,} in context, {len(self.rows) - windows:,} names by themselves"

    def _check_length(self, mentions: Mentions) -> None:
        lengths = self.rows.tokens.offsets[1:] - self.rows.tokens.offsets[:-1]
        longest = int(lengths.max())
        if layout.read(self.encoder.folder, max_length=longest)[1].max_length < longest:
            raise InputError(
                f"its longest window has {longest} tokens, more than the encoder has positions for",
                file=mentions.path,
                remedy="make it again with a smaller --window",
            )
