// How sure an expansion is: the class of its colour and line, and its words.

export const LEVELS = [
  ["definition", "defined in the note"],
  ["sure", "90 % or more"],
  ["unsure", "60 to 90 %"],
  ["doubtful", "below 60 %"],
  ["abstained", "abstained"],
];

const REASONS = {
  low_confidence: "no sense is likely enough",
  no_sense_fits: "no sense of the inventory fits",
  no_known_long_form: "the model knows no word of its long forms",
};

export function level(expansion) {
  if (expansion.abstained) return "abstained";
  if (expansion.source === "definition") return "definition";
  if (expansion.probability >= 0.9) return "sure";
  return expansion.probability >= 0.6 ? "unsure" : "doubtful";
}

export const reason = (expansion) => REASONS[expansion.abstained] ?? String(expansion.abstained).replaceAll("_", " ");
