"""`alphita ...` with an encoder that needs no model, and takes two seconds over a string with "slow" in it."""

from __future__ import annotations

import time

import pytest

from alphita import cli
from tests.doubles import HashEncoder


class Slow(HashEncoder):
    """Sleeps when told to."""

    def encode(self, strings):
        if any("slow" in one for one in strings):
            time.sleep(2)
        return super().encode(strings)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphita.encoder.encoder.TermEncoder.load", Slow.load)
        cli.main()
