"""How the commands name what is answered with."""

from __future__ import annotations

TO = (
    "What to answer with: hpo, icd10cm, a terminology's file or folder as it is published, an X.terminology or an "
    "X.index. What is not indexed yet is indexed once, and kept in the cache."
)
