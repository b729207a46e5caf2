"""A small terminology of findings, its index, and a normalizer over it without calibration."""

from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology

ROWS = [
    ("HP:1", "Seizure", "exact"),
    ("HP:1", "Epileptic seizure", "exact"),
    ("HP:2", "Short fingers", "exact"),
    ("HP:2", "Finger shortness", "exact"),
    ("HP:3", "Curved fingers", "exact"),
    ("HP:4", "Cleft lip", "exact"),
    ("HP:5", "Cleft palate", "exact"),
    ("HP:6", "Hypotonia", "exact"),
    ("HP:7", "Multiple sclerosis", "exact"),
    ("HP:7", "MS", "exact"),
    ("HP:8", "Diabetes mellitus, type 2", "exact"),
    ("HP:9", "Mal di testa", "exact"),
    ("HP:10", "Œdème", "exact"),
    ("T:11", "Headache", "exact"),
    ("T:12", "Cold", "exact"),
    ("T:13", "Cold", "exact"),
]


@pytest.fixture(scope="session")
def index_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("annotating") / "small.index"
    build(SmallTerminology(ROWS), HashEncoder(), path)
    return path


@pytest.fixture(scope="session")
def index(index_path):
    return Index.open(index_path)


@pytest.fixture(scope="session")
def normalizer(index):
    return Normalizer(index, encoder=HashEncoder())
