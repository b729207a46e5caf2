"""What is searched in a corpus and what is kept: the options of `alphita mentions` beside its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alphita import options
from alphita.options import option

NAMES, KEPT = "Names to find", "Contexts to store"


@dataclass(frozen=True, kw_only=True)
class MentionSettings:
    """What is searched, and what is kept.

    Windows of 32 tokens are those of the paper's §3.1, without special tokens and tags; at most 4 contexts a name and
    119 mentions a sequence those of its §4.

    Raises:
        UsageError: a value that is none.
    """

    languages: tuple[str, ...] = option(
        (), "--language", help="Find names in this language only, such as it; repeatable; all by default."
    )
    ambiguous: Literal["leave_out", "keep"] = option(
        "leave_out", panel=NAMES, help="Names of several concepts: leave_out, or keep as a mention of each concept."
    )
    # Of scripts without spaces 2 are enough.
    least_characters: int = option(3, least=1, panel=NAMES, help="Minimum characters of a name.")
    stop: tuple[str, ...] = option((), panel=NAMES, help="A name to skip, in addition to common words; repeatable.")
    window: int = option(32, least=1, help="Tokens per context.")
    contexts: int = option(4, least=1, help="Contexts to store per name.")
    sequence_tokens: int = option(
        0, least=0, panel=KEPT, help="Also store whole documents, in pieces of this many tokens; 0: none."
    )
    most_mentions: int = option(119, least=1, panel=KEPT, help="Maximum mentions per piece.")
    seed: int = option(0, least=0, most=2**32 - 1, panel=KEPT, help="Seed for the choice of contexts.")

    def __post_init__(self) -> None:
        from alphita.terminology import languages

        options.check(self)
        object.__setattr__(self, "languages", tuple(map(languages.known, self.languages)))
