"""The clinical entities of E3C, put back into their texts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import e3c_entities
from alphita_lab.evaluation.benchmarks import ner

HEADER = "language\tset\tlayer\tdoc\tbegin\tend\tmention\tcui\n"
TEXTS = {
    "EN1": 'Fever\tand "severe chest pain" were seen.\nFever fell, chest pain rose.',
    "EN2": "A\u2028rash.",
    "EN3": "No one coughs.",
}


def annotated(*rows: tuple[str, str, str, int, str]) -> str:
    """Return rows of set, layer, document, begin and mention as the file has them."""
    lines = [
        f"English\tdata_{set_}\t{layer}\t{name}\t{begin}\t{begin + len(mention)}\t{mention}\tC1\n"
        for set_, layer, name, begin, mention in rows
    ]
    return HEADER + "".join(lines)


def made(folder: Path, annotations: str, texts: dict[str, str] = TEXTS) -> int:
    (folder / "e3c.tsv").write_text(annotations)
    lines = (json.dumps({"id": name, "text": text}, ensure_ascii=False) for name, text in texts.items())
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    return e3c_entities.main([str(folder / "e3c.tsv"), str(folder / "texts.jsonl"), "-o", str(folder / "out")])


def test_entities_stand_in_their_texts(tmp_path, capsys) -> None:
    # Of the first text the annotators saw two marks more, before the second "Fever".
    status = made(
        tmp_path,
        annotated(
            ("validation", "layer2", "EN1", 0, "Fever"),
            ("validation", "layer2", "EN1", 11, "severe chest pain"),
            ("validation", "layer2", "EN1", 18, "chest pain"),
            ("validation", "layer2", "EN1", 43, "Fever"),
            ("validation", "layer2", "EN1", 55, "chest pain"),
            ("validation", "layer2", "EN1", 60, "nausea"),
            ("annotation", "layer2", "EN1", 0, "Fever"),
            ("annotation", "layer2", "EN2", 2, "rash"),
            ("annotation", "layer2", "EN9", 2, "rash"),
            ("annotation", "layer1", "EN3", 7, "coughs"),
        ),
    )
    assert status == 0
    assert "1 texts, 4 entities; left out: 2 entities, 0 texts" in capsys.readouterr().err
    counts: Counter[str] = Counter()
    ((one,),) = ner.read(tmp_path / "out" / "E3C.test.tsv", counts)
    assert one.text == 'Fever and "severe chest pain" were seen. Fever fell, chest pain rose.'
    assert one.written(ner.spans(one.tags)) == "; ".join(
        f"{name} (clinical)" for name in ("Fever", "severe chest pain", "Fever", "chest pain")
    )
    # What people have checked is not trained on, and a text that is not there is left out.
    ((other,),) = ner.read(tmp_path / "out" / "E3C.train.tsv", counts)
    assert other.written(ner.spans(other.tags)) == "rash (clinical)"
    assert not counts
