"""Orders of imaging: the procedure that a terminology has for them (imaging.tsv)."""

from __future__ import annotations

import pytest

from alphita import textio
from alphita.answer.pipeline import Pipeline
from alphita.index.enrichment import Enrichment
from alphita.index.sources import terminology_of
from alphita.index.store import Index, build
from alphita.mention.imaging import Imaging, parsed
from alphita.mention.spelling import BROADER, NOT_ALONE
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean
from tests.doubles import HashEncoder

CONTRASTS = ("", " with contrast", " without contrast", " with and without contrast")
NAMES = [
    *(f"Computed tomography of {site}{how}" for site in ("head", "chest", "abdomen and pelvis") for how in CONTRASTS),
    *(f"Magnetic resonance imaging of {site}{how}" for site in ("brain", "left knee", "knee") for how in CONTRASTS),
    *("Plain X-ray of chest", "Plain X-ray of chest, posteroanterior and lateral", "Plain X-ray of left hand"),
    *("Plain X-ray of chest, posteroanterior view", "Plain X-ray of both knees", "Portable plain X-ray of chest"),
    *("Doppler ultrasonography of left lower limb veins", "Ultrasonography of thyroid", "Thyroid ultrasonography"),
    *("Screening mammography", "Mammography", "Computed tomography angiography of pulmonary arteries"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    folder = tmp_path_factory.mktemp("imaging")
    terms = "".join(f'X:{row},"{name}"\n' for row, name in enumerate(NAMES))
    (folder / "terms.csv").write_text("id,term\n" + terms, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        terminology = load_terminology(terminology_of(folder / "terms.csv"))
    return build(terminology, HashEncoder(), folder / "imaging.index", enrichment=Enrichment(None, None, "no"))


@pytest.mark.parametrize("row", textio.packaged(__package__, "imaging.tsv"), ids=lambda row: row["order"])
def test_orders_lead_to_the_procedure_that_says_the_same(index, row):
    readings = Imaging(index).readings([clean(row["order"])])
    found = readings[0].string if readings else ""
    assert found == clean(row["procedure"])
    how = "" if not readings else "decided" if readings[0].decided else readings[0].origin
    assert how == row["how"]


def test_what_decides_is_read_as_its_name_and_what_does_not_is_for_review(index):
    pipeline = Pipeline(index, HashEncoder, respell=True)
    same, several, broader, own = pipeline.read(["MRI brain w/wo gad", "US thyroid", "CT head, left", "Mammography"])
    assert same.string == "magnetic resonance imaging of brain with and without contrast"
    assert (same.doubt, several.doubt, broader.doubt, own.doubt) == ("", NOT_ALONE, NOT_ALONE, "")
    assert [one.string for one in several.readings] == ["thyroid ultrasonography", "ultrasonography of thyroid"]
    assert [(one.string, one.origin) for one in broader.readings] == [("computed tomography of head", BROADER)]


def test_an_index_without_imaging_is_not_read():
    assert parsed("seizure") is None
    assert parsed("mr mild") is None
