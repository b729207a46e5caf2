"""Sixty findings in words of every day, with synonyms: a terminology to ask every door about."""

from __future__ import annotations

from pathlib import Path

# Name; "=" before exact synonyms, "~" before related ones, "#" before abbreviations; "<" before the parent.
FINDINGS = """
Finding
Pain < Finding = Ache
Headache < Pain = Head pain = Pain in the head
Migraine < Headache = Migraine headache
Chest pain < Pain = Pain in the chest ~ Chest discomfort
Abdominal pain < Pain = Stomach ache = Belly pain = Pain in abdomen
Back pain < Pain = Backache
Low back pain < Back pain = Lumbago # LBP
Neck pain < Pain = Sore neck
Joint pain < Pain = Arthralgia
Muscle pain < Pain = Myalgia = Sore muscles
Sore throat < Pain = Throat pain = Pharyngeal pain
Ear pain < Pain = Earache = Otalgia
Seizure < Finding = Seizures = Epileptic seizure = Convulsion ~ Fit
Febrile seizure < Seizure = Seizure with fever
Dizziness < Finding = Lightheadedness ~ Giddiness
Vertigo < Dizziness = Spinning sensation
Tremor < Finding = Tremors = Shakiness
Fainting < Finding = Syncope = Loss of consciousness ~ Blackout
Numbness < Finding = Loss of feeling
Weakness < Finding = Muscle weakness
Fatigue < Finding = Tiredness = Feeling tired
Fever < Finding = Pyrexia = High temperature
Chills < Finding = Shivering
Night sweats < Finding = Sweating at night
Weight loss < Finding = Loss of weight
Weight gain < Finding = Gain of weight
Loss of appetite < Finding = Poor appetite = Anorexia
Cough < Finding = Coughing
Dry cough < Cough = Nonproductive cough
Dyspnea < Finding = Shortness of breath = Difficulty breathing = Breathlessness # SOB
Wheezing < Finding = Wheeze
Runny nose < Finding = Rhinorrhea
Nosebleed < Finding = Epistaxis = Bleeding from the nose
Common cold < Finding = Cold = Viral rhinitis
Cold intolerance < Finding = Cold = Sensitivity to cold
Nausea < Finding = Feeling sick ~ Queasiness
Vomiting < Finding = Emesis = Throwing up
Diarrhea < Finding = Loose stools = Watery stools
Constipation < Finding = Hard stools
Heartburn < Finding = Acid reflux
Difficulty swallowing < Finding = Dysphagia
Jaundice < Finding = Yellow skin = Icterus
Abdominal swelling < Finding = Distended abdomen = Bloating
Ankle swelling < Finding = Swollen ankles
Palpitations < Finding = Pounding heart
High blood pressure < Finding = Hypertension = Raised blood pressure # HTN
Low blood pressure < Finding = Hypotension
Slow heart rate < Finding = Bradycardia
Fast heart rate < Finding = Tachycardia
Congestive heart failure < Finding = Heart failure # CHF
Rash < Finding = Skin rash = Skin eruption
Itching < Finding = Pruritus = Itchy skin
Dry skin < Finding = Xerosis
Bruising < Finding = Easy bruising
Blurred vision < Finding = Blurry vision
Double vision < Finding = Diplopia
Hearing loss < Finding = Impaired hearing = Deafness
Ménière disease < Finding = Ménière's disease = Endolymphatic hydrops
Large head < Finding = Macrocephaly = Big head
Trouble sleeping < Finding = Insomnia = Sleeplessness
Anxiety < Finding = Anxiousness = Nervousness
Low mood < Finding = Depression = Feeling sad
"""
SCOPES = {"=": "EXACT []", "~": "RELATED []", "#": "EXACT abbreviation []"}


def write(path: Path) -> Path:
    """Write the findings as OBO; return the path."""
    lines = [line.split() for line in FINDINGS.strip().splitlines()]
    parsed = [_parsed(words) for words in lines]
    numbers = {name: f"T:{number:04}" for number, (name, _) in enumerate(parsed, 1)}
    stanzas = ['format-version: 1.2\nontology: t\nsynonymtypedef: abbreviation "abbreviation"\n']
    for name, others in parsed:
        said = [f"[Term]\nid: {numbers[name]}\nname: {name}"]
        said += [f'synonym: "{text}" {SCOPES[sign]}' for sign, text in others if sign in SCOPES]
        said += [f"is_a: {numbers[text]}" for sign, text in others if sign == "<"]
        stanzas.append("\n".join(said) + "\n")
    path.write_text("\n".join(stanzas), encoding="utf-8")
    return path


def _parsed(words: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """Return a name, and what follows it with its sign."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for word in words:
        if word in (*SCOPES, "<"):
            parts.append((word, []))
        else:
            parts[-1][1].append(word)
    (_, name), *others = parts
    return " ".join(name), [(sign, " ".join(text)) for sign, text in others]
