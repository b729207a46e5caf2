"""Wrong calls of every command: the exit code and what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import alphita
from tests.goldens.golden import Table, masked

CALLS = """
normalize
normalize words.csv --to hpo
normalize none.csv --to hpo -o out.csv
normalize words.csv --to hpo -o out.csv --error 1.5
normalize words.csv --to hpo -o out.csv --top 0
normalize words.csv --to hpo -o out.csv --colum mention
normalize words.csv --to hpo -o out.csv --column other
normalize words.csv --to hpo -o out.csv --workers 2
normalize words.csv --to hpo -o out.csv --gpus-per-worker 0.5
normalize words.csv --to hpo -o out --engine ray --encoding cp1252
normalize words.csv --to hpo -o out --engine ray --prefix A=https://example.org/
normalize - --to hpo -o out --engine processes
normalize words.csv --to hpo -o - --engine processes
normalize words.csv --to hpo -o out.csv --project p
normalize words.csv --to hpo -o out.csv --prefix nothing
normalize words.csv --to none -o out.csv
normalize words.csv --to hpo -o out.csv --learn hours
normalize words.csv --to hpo -o out.csv --model minilm
annotate
annotate none.txt --to hpo -o out.html
annotate words.csv --to hpo -o out.odd
annotate words.csv --to hpo -o out.html --precision 2
annotate words.csv --to none -o out.html
annotate words.csv --to hpo -o out.html --context-rules none.tsv
serve
serve --demo --to hpo
serve --to hpo --port 70000
serve --to hpo --host 0.0.0.0
serve --to hpo --keys none.tsv
serve --to hpo --keys words.csv --trust-user-header X-User
serve --to hpo --proxy nowhere
serve --new-key ann
serve --to hpo --seconds 0
serve --to hpo --window-ms 101
serve --to none --port 0
index
index hpo
index hpo --terminology X.terminology -o out.index
index -o out.index
index hpo -o out.index --workers 2
index hpo -o out.index --parts there
index hpo -o out.index --engine ray --update old.index
index hpo -o out.index --backend quick
index hpo -o words.csv
index hpo -o out.index --learn full --model minilm
index X.terminology -o X.terminology
index X.terminology -o out.index --learn hours
index none -o out.index
mentions
mentions text.txt -t none -o out.mentions
mentions text.txt -t X.terminology -o words.csv
mentions text.txt -t X.terminology -o out.mentions --language klingon
mentions text.txt -t X.terminology -o out.mentions --accents lose
mentions text.txt -t X.terminology -o out.mentions --window 0
mentions text.txt -t X.terminology -o out.mentions --ambiguous twice
bitext
bitext a.txt b.txt --encoder minilm -o out.tsv --language it --margin odd
bitext a.txt b.txt --encoder minilm -o out.tsv --language it --margin distance
bitext text.txt text.txt --encoder minilm -o out.tsv
bitext text.txt text.txt --encoder minilm -o out.tsv --language klingon
bitext text.txt text.txt --encoder minilm -o words.csv --language it
evaluate
evaluate sts
evaluate none -m tfidf
evaluate sts -m tfidf --data nowhere
evaluate --about none
evaluate --compare one
evaluate --compare one two
evaluate sts -m tfidf --seed -1
calibrate
calibrate --index none
calibrate --index none --from other --labels words.csv
mappings convert
mappings convert words.csv
mappings convert words.csv -o words.csv
mappings convert words.csv -o out.odd
mappings convert words.csv -o out.csv --from odd
mappings convert words.csv -o out.csv --date yesterday
mappings convert words.csv -o out.csv --prefix nothing
mappings convert none.csv -o out.csv
mappings migrate none.sqlite --from a --to b
review import
review import words.csv --mappings new.db --project a/b --source LAB
review import words.csv --mappings new.db --project a --source LAB --from odd
review import words.csv --mappings new.db --project a --source LAB --context-from none.csv
review export --project a -o out.csv
review export --mappings none.db --project a -o out.csv
review export --mappings none.db --project a -o words.csv
review export --mappings none.db --project a -o out.csv --date yesterday
vocabulary extend
vocabulary extend -o out
vocabulary extend -o out --corpus text.txt --languages it
vocabulary extend -o words.csv --corpus text.txt
vocabulary extend -o out --corpus text.txt --size 0
train none
train coder
train coder -t none -o out
train coder -t X.terminology -o out --set steps
train coder -t X.terminology -o out --set odd=1
train coder -t X.terminology -o out --export distilled
train coder -t X.terminology -o out --export-set a=1
train coder -t X.terminology -o out --resume --force
graph train transe -t X.terminology -o out --device tpu
terminology import
terminology import odd words.csv -o out
terminology import obo none.obo -o out
terminology import obo words.csv -o out --onto X.terminology
terminology import table words.csv -o words.csv
terminology verbalise
terminology verbalise X.terminology -o out --price 1,2
terminology verbalise X.terminology -o out --prompts p.jsonl --price much
terminology verbalise X.terminology -o out --prompts out
terminology verbalise X.terminology -o words.csv
server search toe --to odd://host --name a --model minilm
server search --to odd://host --name a --model minilm
search query none.search
search query none.search toe
search query none.search toe --top 0
search query none.search --file words.csv toe
""".strip().splitlines()
TABLE = Table("calls", ("call", "exit", "said"), CALLS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "words.csv").write_text("mention,code\nsore toe,1\n")
    (folder / "text.txt").write_text("a sore toe\n")
    (folder / "concepts.csv").write_text("id,term\nT:1,toe ache\nT:2,headache\n")
    assert alphita("terminology", "import", "table", folder / "concepts.csv", "-o", folder / "X.terminology") == 0
    return folder


@pytest.mark.parametrize("call", CALLS)
def test_wrong_calls(
    call: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    before = sorted(folder.iterdir())
    code = alphita(*call.split())
    # Of click's boxes the words, without how it is used.
    said = " ".join(re.sub(r"[\u2500-\u257f]", " ", masked(capsys.readouterr().err, folder)).split())
    said = said.partition(" Error: ")[2] or said
    # Long lists of choices grow with every new one.
    said = re.sub(r"(choose from \[|Possible options: )[^])]{40,}", r"\1…", said)
    assert TABLE.row(call, (str(code), said)) == (str(code), said)
    assert code, f"{call} is right"
    assert [path for path in folder.iterdir() if path not in before and path.suffix != ".csv"] == []


def test_the_table_has_every_call() -> None:
    TABLE.check_complete()
