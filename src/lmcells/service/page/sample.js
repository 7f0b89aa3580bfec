// An invented note.

export const SAMPLE = `CHIEF COMPLAINT: SOB and leg swelling.

HISTORY OF PRESENT ILLNESS: 71 yo man with CHF, AF on warfarin and COPD, s/p CABG in 2015, who came to the ED with worsening DOE for one week. He denies CP. He was seen by his PCP, who stopped HCTZ and ordered a TTE with an EF of 35 %.

PAST MEDICAL HISTORY: CVA in 2019, CAD, HTN, DM, CKD stage 3, MI, OSA on CPAP. No history of PE or DVT.

MEDICATIONS: Metoprolol 25 mg PO BID, ASA 81 mg PO daily, insulin SQ, albuterol PRN.

PHYSICAL EXAM: BP 152/88, HR 96, RR 22. JVP elevated. Lungs with rales, no CVA tenderness. Abdomen soft, NT, ND.

LABORATORY DATA: BNP 1,240, WBC 9.8, Cr 1.9, BUN 42, PT 24 and INR 2.4.

ASSESSMENT AND PLAN: Acute exacerbation of heart failure. Start IV furosemide, check BMP daily, follow I/O. PT and OT to evaluate gait and balance. DNR. Follow up with renal for acute kidney injury (AKI); AKI is likely prerenal.
`;
