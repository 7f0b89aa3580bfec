"""An invented note with a long section and two short ones."""

NOTE = """\
HISTORY OF PRESENT ILLNESS: The patient is a 62-year-old man with a CVA in 2019 who was seen in the office this morning
for follow-up after PT three times a week; he walks well, denies chest pain, and takes his tablets with food every day.

ANESTHESIA: LMA.

MEDICATIONS: MS 2 mg IV.
"""
