"""Rows and files of an OMOP download."""

HEADERS = {
    "CONCEPT": "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code "
    "valid_start_date valid_end_date invalid_reason",
    "CONCEPT_RELATIONSHIP": "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason",
}
DATES = ("19700101", "20991231")


def concept(identifier, name, code, standard):
    return [str(identifier), name, "Condition", "SNOMED", "Disorder", standard, code, *DATES, ""]


def related(head, tail, label):
    return [str(head), str(tail), label, *DATES, ""]


def write_download(folder, **files):
    for name, rows in files.items():
        lines = [HEADERS[name].replace(" ", "\t"), *("\t".join(row) for row in rows)]
        (folder / f"{name}.csv").write_bytes("\n".join([*lines, ""]).encode())
    return folder
