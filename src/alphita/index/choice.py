"""What a user chooses for an index beside its terminology, and where what comes with Alphita for it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, get_args

from alphita import shipped
from alphita.errors import UsageError
from alphita.registry import unknown

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
