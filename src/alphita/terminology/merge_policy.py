"""The policy of a merge: what each kind of statement does, and how strong a claim it makes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alphita.config import Config
from alphita.terminology import model

Policy = Literal["join", "names", "relate", "ignore"]
# What a term says whose source and code are the id of another concept, as UMLS's terms do: "HP", "0001250".
CODE = "code of a term"
# predicate -> its kind.
KINDS = {
    "skos:exactMatch": "exact",
    "owl:equivalentClass": "exact",
    "owl:sameAs": "exact",
    "skos:closeMatch": "close",
    "skos:broadMatch": "broad",
    "skos:narrowMatch": "narrow",
    "skos:relatedMatch": "related",
    model.XREF: "xref",
    CODE: "code",
}
# kind -> label of the relation it becomes under "relate".
LABELS = {
    "exact": "exact_match",
    "close": "close_match",
    "broad": "broad_match",
    "narrow": "narrow_match",
    "related": "related_match",
    "xref": "has_db_xref",
    "classification": "has_db_xref",
    "code": "has_code",
}
# A mapping whose subject is not there, read from its object.
INVERSE = {"skos:broadMatch": "skos:narrowMatch", "skos:narrowMatch": "skos:broadMatch"}
# kind -> how strong a claim is; over a third concept the weaker of its two statements counts, and one more.
STRENGTH = {"exact": 0, "close": 2, "xref": 4, "code": 4, "classification": 6}
# A third concept that more than so many refer to is no meaning but a placeholder.
MOST_OVER_ONE = 50


class Options(Config):
    """The policy: what each kind of statement does."""

    exact: Policy = Field("join", description="skos:exactMatch, owl:equivalentClass, owl:sameAs")
    close: Policy = Field("relate", description="skos:closeMatch")
    xref: Policy = Field("join", description="oboInOwl:hasDbXref (the xref of OBO), except to a classification")
    classification: Policy = Field("names", description="oboInOwl:hasDbXref to a classification")
    code: Policy = Field("join", description="exact terms whose source and code are another concept's id, as in UMLS")
    classifications: str = Field(
        "ICD9,ICD9CM,ICD10,ICD10CM,ICD10PCS,ICD11,ICDO,ICF,ATC,MEDDRA",
        description="prefixes of classifications: their codes are often wider than what refers to them",
    )
    via: str = Field(
        "UMLS,SNOMEDCT,MESH,NCIT,MONDO,ORPHA,OMIM",
        description="prefixes over which cross-references join two concepts that both refer to one of their ids, "
        "where no terminology has it; exact matches do so over any prefix",
    )
    over: Literal["join", "names", "ignore"] = Field(
        "names", description="cross-references of two concepts to one id of such a prefix"
    )
    agreement: float = Field(
        0.3,
        ge=0,
        le=1,
        description="cross-references between two sources join without a common name only where at least this share of "
        "those between the two has one; 0: always",
    )
    confidence: float = Field(0.0, ge=0, le=1, description="mappings of less confidence are left out")
