from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.neighbours import unit
from alphita.search import ProductSearch, catalogue, store
from alphita.search.catalogue import Owned
from alphita.search.projection import FILE
from alphita.search.store import Names
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from tests.doubles import HashEncoder
from tests.reference import product_search as reference
from tests.search.conftest import ROWS, ProjectingEncoder, products_of, write_projection
from tests.tiny import tiny_model

QUERIES = ["tympanitis", "Tympan balm", "tympanitus", "oral", "ear drops", "bronchitis with fever", "发热"]


@pytest.fixture(scope="module")
def search(plain: Path) -> ProductSearch:
    return ProductSearch.load(plain, encoder=HashEncoder())


@pytest.fixture(scope="module")
def predicting(projected: Path, projecting: ProjectingEncoder) -> ProductSearch:
    return ProductSearch.load(projected, encoder=projecting)


def scores_by_loops(query: str, encoder: HashEncoder, folder: Path | None) -> dict[str, dict[str, float]]:
    """Return route -> title -> what it is ranked by; written from the definitions."""
    query = clean(query)
    titles = sorted({clean(title) for title, _, _ in ROWS})
    values = sorted({clean(value) for _, _, cell in ROWS for value in cell.split("|")})
    attributes = sorted({name for _, name, _ in ROWS})
    texts = [f"{title} {name.replace('_', ' ')}" for title in titles for name in attributes]
    vectors = {one: encoder.encode([one])[0] for one in [query, *titles, *values, *texts]}
    by_title = {title: reference.similarity(query, title, titles, vectors) for title in titles}
    by_value: dict[str, float] = {}
    for title, _, cell in ROWS:
        near = [reference.similarity(query, clean(value), values, vectors) for value in cell.split("|")]
        by_value[clean(title)] = max([*near, by_value.get(clean(title), 0.0)])
    found = {"titles": by_title, "values": by_value}
    if folder is not None:
        weight, bias = write_projection(folder, gamma=2.5)
        found["predicted"] = {
            title: max(
                reference.predicted(vectors[query], vectors[f"{title} {name.replace('_', ' ')}"], weight, bias, 2.5)
                for name in attributes
            )
            for title in titles
        }
    # Random weights tell nothing apart, so `fused` leaves them out.
    heeded = [found["titles"], found["values"]]
    found["fused"] = {
        title: 0.99 * max(route[title] for route in heeded) + 0.01 * sum(route[title] for route in heeded)
        for title in titles
    }
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_every_route_ranks_as_loops_do(search, predicting, projecting, query):
    for one, encoder, folder in ((search, HashEncoder(), None), (predicting, projecting, projecting.folder)):
        expected = scores_by_loops(query, encoder, folder)
        assert set(expected) == set(one.routes)
        for route, by_title in expected.items():
            (found,) = one.rank([query], top=100, route=route)
            assert {clean(product.title): product.score for product in found} == pytest.approx(by_title, abs=2e-3)
            shown = [product.score for product in found]
            assert shown == sorted(shown, reverse=True)
            for product in found:
                says = {match.route: match.similarity for match in product.matches}
                routes = ["titles", "values"] if route == "fused" else [route]
                assert set(says) == set(routes)
                assert says == pytest.approx({name: expected[name][clean(product.title)] for name in routes}, abs=2e-3)
                near = [match.similarity for match in product.matches]
                assert near == sorted(near, reverse=True)
            matrix = one.scores([query], route=route)
            assert sorted(matrix[0].tolist(), reverse=True) == shown


def test_products_come_with_the_reason(search: ProductSearch):
    found = search.rank(["Tympanitis", "tympan balm", "bronchitiss"], top=2)
    assert [product.title for product in found[0]] == ["Otocalm ear drops 5 ml", "Cefadrel tablets 200 mg"] or [
        product.title for product in found[0]
    ] == ["Cefadrel tablets 200 mg", "Otocalm ear drops 5 ml"]
    assert [product.why for product in found[0]] == ["indication: tympanitis 1.00"] * 2
    assert (found[1][0].title, found[1][0].why) == ("Tympan balm", "title: Tympan balm 1.00")
    first = found[2][0]
    assert first.title == "Cefadrel tablets 200 mg"
    assert first.matches[0].name == "bronchitis"
    assert first.why == f"indication: Bronchitis {first.matches[0].similarity:.2f}"
    assert first.id.startswith("PRODUCT:")


class Believing(ProjectingEncoder):
    """Puts a title with an attribute where the values lie that it has by ROWS; and sees Nasalin as for otitis, too.

    A model that knows nothing puts it anywhere.
    """

    def __init__(self, folder: Path, *, knows: bool = True):
        super().__init__(folder, dim=16)
        has = [(title, name, clean(value)) for title, name, cell in ROWS for value in cell.split("|")]
        has.append(("Nasalin spray", "indication", "otitis"))
        self.values = sorted({value for _, _, value in has})
        self.texts: dict[str, list[str]] = {}
        for title, name, value in has if knows else []:
            self.texts.setdefault(clean(catalogue.title_with_attribute(title, name)), []).append(value)

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(strings), 16), np.float32)
        for row, string in enumerate(strings):
            for value in self.texts.get(string, [string]):
                place = self.values.index(value) if value in self.values else 15
                vectors[row, place] = 3
        return vectors


@pytest.mark.parametrize(("knows", "auc"), [(True, 1.0), (False, 0.5)])
def test_a_value_that_the_table_lacks_is_found_by_a_projection_that_knows_the_others(tmp_path, terminology, knows, auc):
    save_file({"dense.weight": np.eye(16, dtype=np.float32), "dense.bias": np.zeros(16, np.float32)}, tmp_path / FILE)
    encoder = Believing(tmp_path, knows=knows)
    counts = store.build(terminology, encoder, tmp_path / "b.search")
    assert counts["auc"] == auc
    search = ProductSearch.load(tmp_path / "b.search", encoder=encoder)
    assert "predicted" in search.routes
    (asked,) = search.rank(["otitis"], route="predicted")
    (found,) = search.rank(["otitis"])
    if knows:
        assert (asked[0].title, asked[0].why) == ("Nasalin spray", "indication predicted 0.73")
        assert found[0].title == "Nasalin spray"
    # What `fused` heeds is what it shows.
    assert any(match.route == "predicted" for product in found for match in product.matches) == knows


def test_conditions(search: ProductSearch):
    def titles(*where: str) -> set[str]:
        (found,) = search.rank(["tympanitis"], where=where)
        return {product.title for product in found}

    assert titles("route=oral") == {"Cefadrel tablets 200 mg", "Motiral capsules 5 mg"}
    assert titles("route = ORAL", "indication=nausea") == {"Motiral capsules 5 mg"}
    assert titles("route=oral", "route=nasal") == titles("route=oral") | {"Nasalin spray"}
    assert titles("route=oral", "indication=dry skin") == set()
    for condition, message in (
        ("roote=oral", "unknown attribute 'roote'; did you mean 'route'"),
        ("route=orall", "did you mean 'oral'"),
        ("route=Tympanitis", r"no product has the value 'Tympanitis' of 'route'$"),
        ("indication=bronchitis s", "did you mean 'Bronchitis'"),
        ("route", "attribute=value, not 'route'"),
        ("=oral", "attribute=value"),
        ("route=", "attribute=value"),
    ):
        with pytest.raises(UsageError, match=message):
            titles(condition)


def test_wrong_use(search: ProductSearch):
    for queries, options, message in (
        ([""], {}, "query 1 is empty"),
        (["a", " ?! "], {}, "query 2 is empty"),
        ("ear", {}, "not one string"),
        ([1], {}, "query 1 is not a string but int"),
        (["a"], {"top": 0}, "top must be 1 or more"),
        (["a"], {"route": "title"}, "unknown route 'title'; did you mean 'titles'"),
        (["a"], {"route": "predicted"}, "needs a model with an attribute projection"),
    ):
        with pytest.raises(UsageError, match=message):
            search.rank(queries, **options)  # type: ignore[arg-type]
    assert search.rank([]) == []
    assert search.scores([]).shape == (0, 5)
    assert (len(search), search.attributes) == (5, ["indication", "main_ingredient", "route"])


def test_what_a_split_holds_out_is_not_found_by_values(terminology: Terminology, tmp_path: Path):
    found = catalogue.collect(terminology)
    ids = dict(zip(found.titles, found.product_ids, strict=True)) | dict(
        zip(found.values, found.value_ids, strict=True)
    )
    held = [
        (ids["Nasalin spray"], name, ids[value])
        for name, value in (("indication", "nasal congestion"), ("route", "nasal"))
    ]
    counts = store.build(terminology, HashEncoder(), tmp_path / "s.search", split=Split([], [], [], triples=held))
    assert (counts["products"], counts["held_out_triples"]) == (5, 2)
    search = ProductSearch.load(tmp_path / "s.search", encoder=HashEncoder())
    assert "Nasalin spray" not in {product.title for product in search.rank(["nasal"], route="values")[0]}
    (found_,) = search.rank(["nasalin spray"], top=1)
    assert [match.route for match in found_[0].matches] == ["titles"]


def test_a_search_of_a_real_encoder_needs_nothing_else(tmp_path: Path, terminology: Terminology):
    model = tiny_model(tmp_path / "tiny")
    write_projection(model, dim=32, gamma=4.0)
    encoder = TermEncoder.load(model, precision="fp32")
    store.build(terminology, encoder, tmp_path / "s.search")
    expected = ProductSearch.load(tmp_path / "s.search", encoder=encoder).rank(["tympanitis", "nausea"])
    shutil.rmtree(model)
    shutil.move(tmp_path / "s.search", tmp_path / "moved.search")
    search = ProductSearch.load(tmp_path / "moved.search", precision="fp32")
    assert search.routes == ["fused", "titles", "values", "predicted"]
    assert search.rank(["tympanitis", "nausea"]) == expected
    assert search.opened.facts["trained"] == {"recipe": "electra_em_pap", "terminology": None, "split": None}


def test_artefacts_that_do_not_fit_are_refused(plain: Path, terminology: Terminology, tmp_path: Path):
    with pytest.raises(InputError, match="no such product_search"):
        ProductSearch.load(tmp_path / "none.search")
    with pytest.raises(InputError, match="this is a terminology, but a product_search is needed"):
        ProductSearch.load(terminology.path)
    with pytest.raises(InputError, match=r"its model hash is .*alphita search build"):
        ProductSearch.load(plain, encoder=HashEncoder(seed=1))
    with pytest.raises(InputError, match="its dimension is 32"):
        ProductSearch.load(plain, encoder=HashEncoder(dim=32))
    copy = tmp_path / "copy.search"
    shutil.copytree(plain, copy)
    (copy / "model" / "config.json").write_text('{"dim": 64, "seed": 1}')
    with pytest.raises(InputError, match=r"hash of model/config.json is not the manifest's"):
        ProductSearch.load(copy)
    with pytest.raises(UsageError, match="already exists"):
        store.build(terminology, HashEncoder(), plain)


@pytest.mark.parametrize("name", ["triples.npy", "values.arrow", "catalogue.json", "titles/ngrams"])
def test_damaged_files_are_told(plain: Path, tmp_path: Path, name: str):
    # The manifest agrees with what is there, so that opening itself must notice.
    with artefact.create(tmp_path / "d.search", store.KIND) as draft:
        shutil.copytree(plain, draft.path, dirs_exist_ok=True)
        damaged = draft.path / name
        if damaged.is_dir():
            shutil.rmtree(damaged)
        else:
            damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(InputError, match="damaged"):
        ProductSearch.load(tmp_path / "d.search")


def test_a_build_that_fails_leaves_nothing_and_a_title_of_two_products_is_one(terminology: Terminology, tmp_path: Path):
    class Late(HashEncoder):
        def save(self, path: Path):
            raise InputError("no room for a model")

    with pytest.raises(InputError, match="no room"):
        store.build(terminology, Late(), tmp_path / "x.search")
    assert list(tmp_path.iterdir()) == []
    many = "|".join(f"v{n}" for n in range(300))
    rows = [("Same name", "kind", "red"), ("Same Name ", "kind", "blue"), ("Other", "kind", many)]
    store.build(products_of(rows, tmp_path / "t.terminology"), HashEncoder(), tmp_path / "s.search")
    search = ProductSearch.load(tmp_path / "s.search", encoder=HashEncoder())
    assert len(search) == 2
    (found,) = search.rank(["v299"], top=1, route="values")
    assert (found[0].title, found[0].why) == ("Other", "kind: v299 1.00")


def owned(groups: Sequence[Sequence[str]]) -> Owned:
    strings = sorted({one for group in groups for one in group}, key=str.encode)
    rows = [strings.index(one) for group in groups for one in group]
    offsets = [0, *itertools.accumulate(map(len, groups))]
    return Owned(pa.array(strings, pa.large_string()), np.array(offsets, np.int64), np.array(rows, np.int32))


def opened(groups: Sequence[Sequence[str]], folder: Path) -> Names:
    store.write_names(folder / "titles", owned(groups), HashEncoder(dim=16))
    return Names(folder / "titles")


word = st.text("abc é头痛", min_size=1, max_size=6).map(lambda text: " ".join(text.split())).filter(bool)
groups_of = st.lists(st.lists(word, min_size=1, max_size=3, unique=True), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(groups_of, st.lists(word, min_size=1, max_size=3))
def test_similarities_are_those_of_loops(groups: list[list[str]], queries: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        found = opened(groups, Path(folder))
        strings = list(found.strings)
        vectors = {one: HashEncoder(dim=16).encode([one])[0] for one in [*strings, *queries]}
        similarity = found.similarities(queries, unit(np.stack([vectors[query] for query in queries])))
        expected = [[reference.similarity(query, one, strings, vectors) for one in strings] for query in queries]
        np.testing.assert_allclose(similarity, expected, atol=2e-5)
        for row, query in enumerate(queries):
            by_owner = found.of_owners(similarity[row])
            for owner, group in enumerate(groups):
                own = [float(similarity[row][strings.index(one)]) for one in group]
                assert by_owner[owner] == max(own)
                assert strings[found.best(owner, similarity[row])] == group[own.index(max(own))]
            asked = int(found.strings.rows([query])[0])
            having = [owner for owner, group in enumerate(groups) if query in group]
            assert found.named(asked).tolist() == having


class Broken(HashEncoder):
    def __init__(self, wrong: np.ndarray):
        super().__init__(dim=4)
        self.wrong = wrong

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        return np.repeat(self.wrong[None], len(strings), axis=0)


def test_only_the_equal_string_has_similarity_1_and_broken_vectors_are_refused(tmp_path: Path):
    found = opened([["ear ache"], ["aaaa"], ["aaaaa"]], tmp_path)
    similarity = found.similarities(["aaaa"], unit(HashEncoder(dim=16).encode(["aaaa"])))[0]
    # Their n-grams are the same.
    assert similarity[list(found.strings).index("aaaa")] == 1
    assert 0.9 < similarity[list(found.strings).index("aaaaa")] < 1
    with pytest.raises(InputError, match=r"not finite.*'a'"):
        store.write_names(tmp_path / "a", owned([["a"], ["b"]]), Broken(np.array([1, np.nan, 0, 0], np.float32)))
    with pytest.raises(AlphitaError, match=r"shape \(2, 3\) for 2 strings"):
        store.write_names(tmp_path / "b", owned([["a"], ["b"]]), Broken(np.ones(3, np.float32)))


@pytest.mark.parametrize("module", ["alphita.search.product_search", "alphita.cli.search", "alphita.search.store"])
def test_importing_loads_no_heavy_library(module: str):
    code = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'transformers', 'faiss', 'polars', 'onnxruntime', 'sklearn', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
