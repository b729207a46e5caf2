from __future__ import annotations

import pytest

from tests.docs.blocks import Block, blocks, commands


def test_blocks_know_their_place_language_and_whether_they_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```sh\nmake test\n\nls\n```\ntext\n<!-- not run: needs UMLS -->\n\n```sh\nalphita x\n```\n"
        "```python\nx\n```\n"
    )
    assert blocks(page) == [
        Block("page.md", 4, "sh", "make test\n\nls"),
        Block("page.md", 12, "sh", "alphita x", "needs UMLS"),
        Block("page.md", 15, "python", "x"),
    ]
    page.write_text("```sh\nmake\n")
    with pytest.raises(ValueError, match=r"page\.md:1: the block is not closed"):
        blocks(page)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("# a comment", []),
        ("make test  # all of it", [(0, ["make", "test"])]),
        ("a b\n\nc 'd e'", [(0, ["a", "b"]), (2, ["c", "d e"])]),
        ("a \\\n  --b \\\n  c\nd", [(0, ["a", "--b", "c"]), (3, ["d"])]),
        (
            'echo "x | y" | alphita normalize - && ls; pwd',
            [(0, ["echo", "x | y"]), (0, ["alphita", "normalize", "-"]), (0, ["ls"]), (0, ["pwd"])],
        ),
        ("X=1 Y=2 a k=v > out.csv 2> err.txt --z", [(0, ["a", "k=v", "--z"])]),
        ("a --top 2 < in.csv 2>&1", [(0, ["a", "--top", "2"])]),
        ("X=1", []),
    ],
)
def test_shell_lines_are_divided_into_commands(text, found):
    assert commands(text) == found


@pytest.mark.parametrize("text", ["a 'b", "cat <<EOF\nx\nEOF"])
def test_shell_that_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match=r"No closing quotation|a here-document is not understood"):
        commands(text)
