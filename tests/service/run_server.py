"""`alphita ...` with an encoder that needs no model, and waits for the file $GO_ON at a string with "slow" in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alphita import cli
from tests.doubles import HashEncoder
from tests.waiting import wait_until


class Slow(HashEncoder):
    """Waits when told to."""

    def encode(self, strings):
        if any("slow" in string for string in strings):
            wait_until(Path(os.environ["GO_ON"]).exists)
        return super().encode(strings)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphita.encoder.encoder.TermEncoder.load", Slow.load)
        cli.main()
