"""Fenced blocks of Markdown, and the shell commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: (.+?) -->$")
# A redirection's own number, as in `2>errors.txt`, which shlex would take for a word.
NUMBERED = re.compile(r"(?<=\s)\d(?=[<>])")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        file: the Markdown file's path.
        line: 1-based line of its first line of text.
        language: the word after the fence.
        text: what is between the fences.
        not_run: why it is only parsed; None for a block that is run.
    """

    file: str
    line: int
    language: str
    text: str
    not_run: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def blocks(path: Path, root: Path | None = None) -> list[Block]:
    """Return the fenced blocks of a Markdown file, which is named as it stands below `root`, else by its name alone."""
    name = path.relative_to(root).as_posix() if root is not None else path.name
    found: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    before, number = "", 0
    while number < len(lines):
        if opening := FENCE.match(lines[number]):
            start = number + 1
            number = start
            while number < len(lines) and lines[number].rstrip() != "```":
                number += 1
            if number == len(lines):
                raise ValueError(f"{name}:{start}: the block is not closed")
            reason = NOT_RUN.match(before)
            text = "\n".join(lines[start:number])
            found.append(Block(name, start + 1, opening[1], text, reason[1] if reason else None))
            before = ""
        elif lines[number].strip():
            before = lines[number].strip()
        number += 1
    return found


def commands(text: str) -> list[tuple[int, list[str]]]:
    """Return the simple commands of shell lines, each with its 0-based line and its words.

    Pipes, `&&`, `||`, `;` and `&` divide commands; redirections and assignments before a command are left out.

    Raises:
        ValueError: a quotation that is not closed, or a here-document, which is not understood.
    """
    found: list[tuple[int, list[str]]] = []
    number = 0
    lines = text.splitlines()
    while number < len(lines):
        first, line = number, lines[number]
        while line.endswith("\\") and number + 1 < len(lines):
            number += 1
            line = line[:-1] + " " + lines[number]
        number += 1
        found += [(first, words) for words in _divide(line)]
    return found


def _divide(line: str) -> list[list[str]]:
    lexer = shlex.shlex(NUMBERED.sub("", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    divided: list[list[str]] = [[]]
    tokens = iter(lexer)
    for token in tokens:
        if "<<" in token:
            raise ValueError(f"a here-document is not understood: {line}")
        if set(token) <= set("<>&") and set(token) & set("<>"):
            next(tokens, None)
        elif set(token) <= set("();|&"):
            divided.append([])
        elif divided[-1] or not re.match(r"[A-Za-z_]\w*=", token):
            divided[-1].append(token)
    return [words for words in divided if words]
