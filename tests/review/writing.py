"""Two reviewers decide at once, by a script; what is stored is said: `python -m ... STORE REVIEWER=FIRST ...`."""

from __future__ import annotations

import sys
import threading

from alphita.review.records import Decision
from alphita.review.store import ReviewStore
from tests.review.samples import TOE

N_ROWS = 7


def kind(number: int) -> str:
    """Return what a reviewer does at each step."""
    return "undo" if number % 10 == 9 else "bulk" if number % 25 == 0 else "decide"


def work(store: ReviewStore, reviewer: str, first: int) -> None:
    for number in range(first, 1_000_000):
        uid, row = f"{reviewer} {number}", number % N_ROWS + 1
        if kind(number) == "undo":
            store.undo("codes", reviewer, uid)
        elif kind(number) == "bulk":
            store.bulk("codes", reviewer, uid, threshold=0.5)
        else:
            store.decide(Decision(uid, "codes", row, reviewer, "choose", TOE, comment=str(number)))
        sys.stdout.write(f"{uid}\n")
        sys.stdout.flush()


def main(path: str, reviewers: list[str]) -> None:
    store = ReviewStore.open(path)
    for reviewer, first in (one.split("=") for one in reviewers):
        threading.Thread(target=work, args=(store, reviewer, int(first))).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
