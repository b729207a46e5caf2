"""Give a terminology that OMOP does not have concept ids of one's own, above 2,000,000,000: a table in Athena's layout.

    python examples/local_concept_ids.py X.terminology VOCABULARY DOMAIN CONCEPT.csv

The local part of every concept's id must be a number, as in HP:0001250.
"""

import sys

import alphita

OWN = 2_000_000_000

terminology = alphita.load_terminology(sys.argv[1])
vocabulary, domain = sys.argv[2:4]
with open(sys.argv[4], "w", encoding="utf-8") as file:
    file.write("concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_code\n")
    names = terminology.concept_names.to_pylist()
    for curie, name in zip(terminology.concept_ids.to_pylist(), names, strict=True):
        code = curie.partition(":")[2]
        file.write(f"{OWN + int(code)}\t{name}\t{domain}\t{vocabulary}\t{code}\n")
