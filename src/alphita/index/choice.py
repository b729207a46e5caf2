"""What a user chooses for an index beside its terminology, and where what comes with Alphita for it lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from alphita import artefact, shipped
from alphita.errors import UsageError
from alphita.registry import unknown

if TYPE_CHECKING:
    from alphita.index.enrichment import Enrichment

Learn = Literal["no", "seconds", "minutes"]
LEARN: tuple[Learn, ...] = get_args(Learn)
# The table of names: the kind of its folder, and the folder.
KIND = "names"
FOLDER = "models/alphita-names"


def shipped_folder() -> Path:
    """Return the folder of the table of names and the lists that come with Alphita.

    Raises:
        InputError: it is not there.
    """
    return shipped.find(FOLDER)


class Choice(NamedTuple):
    """What a user chooses for an index.

    Attributes:
        borrow: whether names are borrowed from the table that comes with Alphita, and its short forms are known.
        names: terminologies whose names are borrowed too, of any kind that `--to` takes; they go first.
        learn: how much a head is taught: one of `LEARN`.
    """

    borrow: bool = True
    names: tuple[str, ...] = ()
    learn: Learn = "seconds"

    def check(self) -> None:
        """Make sure that what is chosen exists.

        Raises:
            UsageError: an unknown way of learning.
        """
        if self.learn not in LEARN:
            raise UsageError(unknown("learning", self.learn, LEARN))

    def hash(self) -> str:
        """Return the hash of what is chosen, by its content.

        Raises:
            UsageError: an unknown choice, or no such terminology.
            InputError: a table or a terminology is damaged.
        """
        from alphita.index.sources import terminology_of

        self.check()
        paths = [(terminology_of(name), "terminology") for name in self.names]
        paths += [(shipped_folder(), KIND)] if self.borrow else []
        return artefact.hash_json([self.learn, [artefact.open_manifest(*one)["content_hash"] for one in paths]])

    def load(self) -> Enrichment:
        """Return what is chosen.

        Raises:
            UsageError: an unknown choice, or no such terminology.
            InputError: a table or a terminology is damaged, or has no two names for one thing.
        """
        from alphita.index import enrichment
        from alphita.index.sources import terminology_of

        self.check()
        return enrichment.load(
            [(name, terminology_of(name)) for name in self.names], borrow=self.borrow, learn=self.learn
        )
