"""Generated definitions: asking a callable for them, resumably, and reading them back with checks.

Answers are JSONL, a line a concept: {"concept_id", "text"}. The callable is the user's: it takes a prompt and returns
the answer. What it wrote can also come from elsewhere, made of the prompts that `prompts.write_prompts` wrote.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from alphita import progress, textio
from alphita.errors import AlphitaError, InputError, Rejects
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, whole_characters
from alphita_lab.verbalisation.prompts import UNKNOWN
from alphita_lab.verbalisation.published import is_published, read_published

MAX_CHARACTERS = 1_500
SYNC_EVERY = 20  # answers
MAX_FAILURES = 5  # concepts in a row
WARN_AT = 5  # concepts with the same text

_REFUSAL = re.compile(
    r"(?:(?:i['’]?m|i am|we['’]re|we are) (?:sorry|unable|not able|afraid)|sorry\b|i apologi[sz]e"
    r"|i (?:can(?:not|['’]t)|do not|don['’]t|could not|couldn['’]t) |as an? (?:ai|artificial|large|language)\b"
    r"|unfortunately, i\b|(?:n/?a|none|null)\W*$|no definition)",
    re.IGNORECASE,
)


def generate(
    call: Callable[[str], str],
    prompts: Iterable[tuple[str, str]],
    output: Path | str,
    *,
    attempts: int = 3,
    wait: float = 1.0,
    longest: int = MAX_CHARACTERS,
) -> dict[str, int]:
    """Ask for each prompt's definition and append it to `output`; go on where an earlier run was stopped."""
    output = Path(output)
    set_aside = output.with_name(output.name + ".rejects.jsonl")
    counts: Counter[str] = Counter()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with open(output, "a", encoding="utf-8") as answers, open(set_aside, "a", encoding="utf-8") as rejects:
            _lock(answers, output)
            _drop_half_line(output)
            _drop_half_line(set_aside)
            failures, texts = 0, Counter[str]()
            done = {concept_id for concept_id, _ in _answers(set_aside)}
            for concept_id, text in _answers(output):
                done.add(concept_id)
                texts[clean(text)] += 1
            for number, (concept_id, text) in enumerate(prompts, 1):
                if concept_id in done:
                    counts["answered before"] += 1
                    continue
                done.add(concept_id)
                try:
                    answer = _ask(call, text, attempts, wait)
                except _Failed as error:
                    counts["failed"] += 1
                    failures += 1
                    if failures == MAX_FAILURES:
                        raise AlphitaError(
                            f"the generator failed for {failures} concepts in a row, the last one {concept_id}: "
                            f"{error}; what was answered is in {output}, and the same call goes on from there"
                        ) from error
                    continue
                failures = 0
                problem = wrong(answer, longest)
                if problem is not None:
                    counts[f"set aside: {problem}"] += 1
                    _append(rejects, {"concept_id": concept_id, "text": answer[: 2 * longest], "problem": problem})
                else:
                    counts["answered"] += 1
                    counts["same text as another concept"] += _is_repeated(answer, texts)
                    _append(answers, {"concept_id": concept_id, "text": answer})
                if number % SYNC_EVERY == 0:
                    _sync(answers, rejects)
            _sync(answers, rejects)
        if not set_aside.stat().st_size:
            set_aside.unlink()
    except OSError as error:
        raise AlphitaError(f"could not write {output}: {error.strerror or error}") from error
    return {name: count for name, count in counts.items() if count}


def _is_repeated(answer: str, texts: Counter[str]) -> bool:
    """Count an answer among the texts so far, warn of one that many concepts get, and tell whether it was there."""
    key = clean(answer)
    texts[key] += 1
    if texts[key] == WARN_AT:
        progress.say(f"warning: the generator gave {WARN_AT} concepts the same text: {answer[:80]!r}")
    return texts[key] > 1


def wrong(answer: str, longest: int = MAX_CHARACTERS) -> str | None:
    """Say what is wrong with an answer: empty, too long, a refusal; None for nothing."""
    if not clean(answer):
        return "empty"
    if len(answer) > longest:
        return f"longer than {longest:,} characters"
    if answer.strip(" .\"'").upper() == UNKNOWN or _REFUSAL.match(answer.lstrip(" \"'")):
        return "a refusal"
    return None


def read_generated(path: Path | str, terminology: Terminology, rejects: Rejects | None = None) -> dict[str, list[str]]:
    """Read generated definitions: JSONL of {"concept_id", "text"}, or as others publish them (see `published`)."""
    aside = rejects if rejects is not None else Rejects()
    if is_published(Path(path)):
        return read_published(Path(path), terminology, aside)
    lines: list[tuple[int, str, str]] = []
    for number, entry in _entries(path, aside):
        concept_id, text = entry.get("concept_id"), entry.get("text")
        if not isinstance(concept_id, str) or not isinstance(text, str | None):
            aside.add('needs "concept_id" and "text", both strings', file=path, line=number, value=json.dumps(entry))
        elif problem := wrong(text or ""):
            aside.add(f"the text is {problem}", file=path, line=number, field="text", value=text)
        else:
            lines.append((number, concept_id, str(text).strip()))
    rows = rows_of(terminology, {concept_id for _, concept_id, _ in lines})
    kept: dict[str, tuple[int, str]] = {}
    for number, concept_id, text in lines:
        if concept_id not in rows:
            aside.add("no concept has this id", file=path, line=number, field="concept_id", value=concept_id)
            continue
        own = terminology.concept_id(rows[concept_id])
        if own in kept and kept[own][1] != text:
            aside.add(f"line {number} has another text of this concept", file=path, line=kept[own][0], value=concept_id)
        kept[own] = (number, text)
    owners = Counter(clean(text) for _, text in kept.values())
    for own, (number, text) in list(kept.items()):
        if (shared := owners[clean(text)]) > 1:
            aside.add(f"{shared:,} concepts have the same text", file=path, line=number, field="text", value=text)
            del kept[own]
    if not kept:
        raise InputError(
            "no generated definition is left",
            file=path,
            remedy='give lines of {"concept_id": "…", "text": "…"}; the lines set aside say what is wrong',
        )
    return {own: [text] for own, (_, text) in kept.items()}


class _Failed(Exception):
    """The callable failed at every attempt."""


def _ask(call: Callable[[str], str], text: str, attempts: int, wait: float) -> str:
    for attempt in range(1, attempts + 1):
        try:
            answer = call(text)
            # Of an emoji that was cut half a pair may be left.
            return "" if answer is None else " ".join(whole_characters(str(answer)).split())
        except Exception as error:  # the user's callable may raise anything
            if attempt == attempts:
                raise _Failed(f"{type(error).__name__}: {error}") from error
            time.sleep(wait * 2 ** (attempt - 1))
    raise _Failed("no attempt was allowed")


def _append(file: IO[str], entry: dict[str, str]) -> None:
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    file.flush()


def _sync(*files: IO[str]) -> None:
    for file in files:
        os.fsync(file.fileno())


def _lock(file: IO[str], path: Path) -> None:
    """Keep a second run from asking, and paying, for the same."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlphitaError(f"another run is writing {path}; wait for its end") from None
    except OSError:  # where locks do not work
        return


def _drop_half_line(path: Path) -> None:
    """Cut a file after its last newline: what comes after was being written when its writer was killed."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                file.truncate(start + place + 1)
                return
            end = start
        file.truncate(0)


def _answers(path: Path) -> Iterator[tuple[str, str]]:
    if not path.exists():
        return
    for number, entry in _entries(path, Rejects(strict=True)):
        concept_id, text = entry.get("concept_id"), entry.get("text")
        if not isinstance(concept_id, str) or not isinstance(text, str):
            raise InputError(
                'not a line of {"concept_id": ..., "text": ...}',
                file=path,
                line=number,
                remedy="mend or remove the line, or choose another output",
            )
        yield concept_id, text


def _entries(path: Path | str, rejects: Rejects) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the JSON objects of a file with their lines; other lines go to `rejects`."""
    try:
        with open(path, "rb") as file:
            for number, line in textio.ended_lines(file, path):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if not line.strip():
                    continue
                try:
                    entry = textio.json_value(line.decode("utf-8"))
                except ValueError:
                    entry = None
                if isinstance(entry, dict):
                    yield number, entry
                else:
                    shown = line.decode("utf-8", "replace").strip()
                    rejects.add("not a JSON object", file=path, line=number, value=shown)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
