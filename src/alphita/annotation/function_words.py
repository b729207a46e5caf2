"""Words that no mention begins or ends with, and words that none holds, in five languages."""

from __future__ import annotations


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Joins of two parts that may share a head; beside them the comma and the slash.
CONJUNCTIONS = _words("and or e ed o und oder et ou y u")
# May stand inside a mention ("delay of speech"), at none of its ends.
INSIDE = _words(
    "a an the of in on at to for with by and or from per as de del della delle dei degli di da con al la il lo le",
    "gli un una uno des der die das dem den im am mit von zu und oder du les aux et ou en el los las y o e ed l d",
)
# Never inside a mention: pronouns, verbs of telling and being, and what joins sentences.
OUTSIDE = _words(
    "i you he she it we they him her them his hers its our their this that these those who whom whose which what",
    "when where why how is are was were be been being am has have had having do does did doing done can could",
    "will would shall should may might must if then than but because although though however while whereas since",
    "after before during until between among also both either neither nor only very too more most less least",
    "other others another such same some any all each every few many several therefore thus hence here there not",
    "cannot including included include includes shows showed shown show reveals revealed reveal presents",
    "presented presenting reports reported report described describe describes associated characterized",
    "characterised diagnosed noted observed found seen denies denied developed develops suggest suggests",
    "suggested suggesting consistent compatible caused causes causing cause affecting involving following resulted",
    "result results resulting due patient",
    "patients pt pts man woman boy girl child children family families mother father brother sister year years",
    "old day days week weeks month months age aged case cases study history che chi cui non si ha ho hanno era",
    "erano sono stato stata stati state paziente pazienti ma se quando perche anche ich du er sie es wir ihr ist",
    "sind war waren wurde wurden hat haben hatte nicht kein keine aber wenn weil auch je tu il elle nous vous ils",
    "elles est sont etait ont avait ne pas mais quand parce aussi qui que patiente yo ella nosotros ellos son fue",
    "han habia no pero cuando porque tambien paciente",
)
# Names of one word that are common words of a language, and mean it in nearly every text.
COMMON = _words(
    "all may can will was has had not no yes see say man men set sit cut let end age old new low high mass case",
    "type part side left right mild severe moderate acute chronic progressive bilateral unilateral onset death",
    "normal abnormal finding findings sign signs symptom symptoms disease diseases disorder disorders syndrome",
    "syndromes condition abnormality abnormalities anomaly anomalies defect defects other none unknown",
    "unspecified male female position frequency frequent variable rare common present absent positive negative",
    "phenotype history family",
)
# Words of a name that say how or where a finding is; texts leave them out.
QUALIFIERS = _words(
    "generalized unilateral bilateral proximal distal congenital isolated primary idiopathic conspicuously"
)
