"""Mentions found in the abstracts of HPO GSC+, beside dictionary annotators.

    python bench/annotate.py --data DATA/hpo_gsc_plus --index hpo.index -o annotation.json
    python bench/annotate.py ... --peer fasthpocr=VENV/bin/python --peer gilda=VENV/bin/python
    python bench/annotate.py ... --diseases CTD_diseases_2017.tsv --disease-index ctd.index --pubtator ncbi=NCBI.txt
    python bench/annotate.py ... --speed hpo.index --speed large.index

The first abstracts, by file name, are the development part, on which the least confidence of a phrase is chosen; the
rest is reported. Ids of the gold standard are those of 2016: each is looked up with its alternative and replaced ids;
those that are gone are left out, and counted. At document level distinct concepts of each abstract count, at mention
level start, end and concept together; both are sums over all abstracts. `phenotypes` counts only what lies below
"Phenotypic abnormality", in gold and answers: some annotators know nothing else.

Of corpora in PubTator's layout the diseases count: spans by start and end, concepts by these and the concept (of a
mention of several, any of them), documents by distinct concepts. Speed is in words a second of processor time, of all
threads together, so that what else runs on the machine counts little; the best of `ROUNDS`, each in turn.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from alphita import machine
from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.spans import Document
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from alphita.terminology.detect import find_packaged
from alphita_lab.evaluation.benchmarks import _dictionary, _pubtator

PEERS = Path(__file__).with_name("peers")
LINE = re.compile(r"\[(\d+)::(\d+)\]\s+(HP_\d+) \|")
ABNORMALITY = "HP:0000118"
THRESHOLDS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
ROUNDS = 3
DISEASES = frozenset({"Disease", "SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention"})
Span = tuple[int, int, str]


class Corpus(NamedTuple):
    """Abstracts with their gold mentions.

    Attributes:
        names: of the files.
        texts: of each.
        gold: of each, start, end and concept.
        gone: mentions whose id is no more.
    """

    names: list[str]
    texts: list[str]
    gold: list[list[Span]]
    gone: int


def load(folder: Path, index: Index) -> Corpus:
    """Read the corpus, its ids as the index has them."""
    names = sorted(file.name for file in (folder / "corpus").iterdir())
    texts = [(folder / "corpus" / name).read_text(encoding="utf-8") for name in names]
    gold: list[list[Span]] = []
    gone = 0
    for name in names:
        found = [LINE.match(line) for line in (folder / "ann" / name).read_text(encoding="utf-8").splitlines()]
        spans = [(int(one[1]), int(one[2]), one[3].replace("_", ":")) for one in found if one]
        rows = index.concept_rows([span[2] for span in spans]).tolist() if spans else []
        gone += sum(row < 0 for row in rows)
        gold.append([(*span[:2], index.concept(row).id) for span, row in zip(spans, rows, strict=True) if row >= 0])
    return Corpus(names, texts, gold, gone)


def scores(gold: list[list[Span]], answers: list[list[Span]], within: set[str] | None = None) -> dict[str, float]:
    """Return precision, recall and F1 at both levels, in percent."""
    found: dict[str, float] = {}
    for level, key in (("document", lambda span: span[2]), ("mention", lambda span: span)):
        right = given = wanted = 0
        for truth, said in zip(gold, answers, strict=True):
            true = {key(span) for span in truth if within is None or span[2] in within}
            claimed = {key(span) for span in said if within is None or span[2] in within}
            right, given, wanted = right + len(true & claimed), given + len(claimed), wanted + len(true)
        rates = {
            "precision": right / max(given, 1),
            "recall": right / max(wanted, 1),
            "f1": 2 * right / max(given + wanted, 1),
        }
        found |= {f"{level}_{name}": round(100 * rate, 1) for name, rate in rates.items()}
    return found


def ours(normalizer: Normalizer, texts: list[str], settings: Settings) -> list[list[tuple[Span, float]]]:
    """Return the mentions of each text with their confidence; 1 where there is none."""
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    annotated = Annotator(normalizer, settings).annotate(documents)
    return [
        [((one.start, one.end, one.concept_id), one.confidence or 1.0) for one in document.annotations]
        for document in annotated
    ]


def of_peer(name: str, python: str, texts: list[str], index: Index) -> tuple[list[list[Span]], float]:
    """Run a peer in its own environment; return its answers and the seconds of processor time that they took."""
    with tempfile.TemporaryDirectory() as folder:
        given, out, names = (Path(folder) / one for one in ("texts.json", "out.json", "names.tsv"))
        given.write_text(json.dumps(texts), encoding="utf-8")
        source = str(find_packaged("hpo"))
        if name != "fasthpocr":
            names.write_text(_names(index), encoding="utf-8")
            source = str(names)
        command = [python, str(PEERS / f"annotate_{name}.py"), source, str(given), str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        told = json.loads(out.read_text(encoding="utf-8"))
    return [[(start, end, concept) for start, end, concept in some] for some in told["answers"]], told["seconds"]


def _names(index: Index) -> str:
    """Return id and name of every name of the index's own, preferred names first."""
    segment = index.segment
    ids = segment.concepts.column("id").to_pylist()
    names = segment.concepts.column("name").to_pylist()
    written = segment.terms.column("string").to_pylist()
    lines = [f"{one}\t{name}" for one, name in zip(ids, names, strict=True)]
    lines += [
        f"{ids[concept]}\t{string}"
        for string, concept, borrowed in zip(written, segment.term_concept.tolist(), segment.borrowed, strict=True)
        if not borrowed and string != names[concept]
    ]
    return "\n".join(line.replace("\n", " ") for line in lines)


def of_pubtator(path: Path, dictionary: _dictionary.Dictionary, annotator: Annotator) -> dict[str, float]:
    """Return precision, recall and F1 on a corpus, of its diseases: spans, concepts of spans, concepts of documents."""
    documents = [one for one in _pubtator.documents(path) if not one.again]
    found = annotator.annotate([Document(one.name, one.text) for one in documents])
    counts = {level: [0, 0, 0] for level in ("span", "mention", "document")}
    for document, annotated in zip(documents, found, strict=True):
        gold: dict[tuple[int, int], set[str]] = {}
        for mention in document.annotations:
            if mention.type in DISEASES and mention.ids:
                concepts = {concept for one in mention.ids for concept in dictionary.find(one)}
                gold.setdefault((mention.start, mention.end), set()).update(concepts)
        ours = {(one.start, one.end): _dictionary.bare(one.concept_id) for one in annotated.annotations}
        wanted, claimed = set().union(*gold.values()), set(ours.values())
        right = [place for place in ours if place in gold]
        for level, some in {
            "span": (len(right), len(ours), len(gold)),
            "mention": (sum(ours[place] in gold[place] for place in right), len(ours), len(gold)),
            "document": (len(wanted & claimed), len(claimed), len(wanted)),
        }.items():
            counts[level] = [before + one for before, one in zip(counts[level], some, strict=True)]
    rates: dict[str, float] = {"documents": len(documents)}
    for level, (right_ones, given, number) in counts.items():
        rates[f"{level}_precision"] = round(100 * right_ones / max(given, 1), 1)
        rates[f"{level}_recall"] = round(100 * right_ones / max(number, 1), 1)
        rates[f"{level}_f1"] = round(200 * right_ones / max(given + number, 1), 1)
    return rates


def speed(path: Path, texts: list[str]) -> dict[str, float]:
    """Return words a second of processor time, with the encoder and without, and the most memory in MiB."""
    normalizer = Normalizer(Index.open(path))
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    words = sum(len(text.split()) for text in texts)
    best = {"alphita --exact": 0.0, "alphita": 0.0}
    reading = 0.0
    for _ in range(ROUNDS):
        for name in best:
            # A new one has no memory of answers; one at a time is in memory.
            annotator = None
            began = time.process_time()
            annotator = Annotator(normalizer, Settings(exact=name != "alphita"))
            reading = time.process_time() - began
            annotator.annotate([Document("first", "no seizure, possible ataxia")])
            began = time.process_time()
            annotator.annotate(documents)
            best[name] = max(best[name], words / (time.process_time() - began))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "names": len(normalizer.index),
        **{name: round(rate) for name, rate in best.items()},
        "seconds_to_read_the_names": round(reading, 1),
        "most_memory_mib": round(most),
    }


def alone(path: Path, texts: list[str]) -> dict[str, float]:
    """Return `speed` as a process of its own measures it."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(speed, path, texts).result()


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True, help="of HPO, from `alphita index hpo`")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--development", type=int, default=60)
    parser.add_argument("--pubtator", action="append", default=[], metavar="NAME=CORPUS")
    parser.add_argument("--diseases", type=Path, help="MEDIC or CTD's diseases, which the corpora's ids are sought in")
    parser.add_argument("--disease-index", type=Path, help="an index of these")
    parser.add_argument("--speed", action="append", default=[], type=Path, metavar="INDEX")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    normalizer = Normalizer(Index.open(options.index))
    index = normalizer.index
    corpus = load(options.data, index)
    cut = options.development
    row = int(index.concept_rows([ABNORMALITY])[0])
    within = {index.concept(one).id for one in index.segment.descendants(row).tolist()}
    texts, gold = corpus.texts, corpus.gold
    chosen, best = 0.0, -1.0
    development = {}
    for least in THRESHOLDS:
        answers = [
            [span for span, _ in some] for some in ours(normalizer, texts[:cut], Settings(phrase_confidence=least))
        ]
        development[str(least)] = scores(gold[:cut], answers)
        if development[str(least)]["document_f1"] > best:
            chosen, best = least, development[str(least)]["document_f1"]
    rows = {}
    for name, settings in {
        "alphita": Settings(phrase_confidence=chosen),
        "alphita --exact": Settings(exact=True),
    }.items():
        answers = [[span for span, _ in some] for some in ours(normalizer, texts[cut:], settings)]
        rows[name] = {"all": scores(gold[cut:], answers), "phenotypes": scores(gold[cut:], answers, within)}
    speeds: dict[str, Any] = {path.name: alone(path, texts) for path in options.speed}
    for peer in options.peer:
        name, _, python = peer.partition("=")
        answers, seconds = of_peer(name, python, texts[cut:], index)
        speeds[name] = round(sum(len(text.split()) for text in texts[cut:]) / seconds)
        rows[name] = {"all": scores(gold[cut:], answers), "phenotypes": scores(gold[cut:], answers, within)}
    corpora = {}
    if options.pubtator:
        diseases = Normalizer(Index.open(options.disease_index))
        dictionary = _dictionary.read(options.diseases)
        for one in options.pubtator:
            name, _, path = one.partition("=")
            for kind, exact in (("alphita", False), ("alphita --exact", True)):
                annotator = Annotator(diseases, Settings(exact=exact))
                corpora[f"{name}, {kind}"] = of_pubtator(Path(path), dictionary, annotator)
    report = {
        "rows": rows,
        "corpora": corpora,
        "words_a_second_of_processor_time": speeds,
        "development": development,
        "least_confidence_of_a_phrase": chosen,
        "abstracts": {"development": cut, "reported": len(texts) - cut},
        "mentions": {"reported": sum(map(len, gold[cut:])), "gone": corpus.gone},
        "corpus_sha256": hashlib.sha256("".join(texts).encode()).hexdigest(),
        "sources": index.manifest.get("sources"),
        "command": [re.sub(r"[^=]*/", "", argument) for argument in sys.argv],
        "machine": machine.describe(),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({"rows": rows, "corpora": corpora, "speeds": speeds}, indent=1))


if __name__ == "__main__":
    main()
