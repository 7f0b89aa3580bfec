// What a word or the section did for an answer, as an effect on its log-odds: how it is shaded, and how it is said.

const NOTABLE = 0.1; // a tenth of the odds
const STRONG = [0.25, 0.75]; // from which a word is shaded as the second and the third

const FOR = ["words-1", "words-2", "words-3"];
const AGAINST = "words-against";
export const SHADES = [...FOR, AGAINST];

// An effect may be null: there was nothing to hide, or to compare.
export const isNotable = (effect) => effect !== null && Math.abs(effect) > NOTABLE;

export const isAgainst = (effect) => isNotable(effect) && effect < 0;

export const shade = (effect) => (isAgainst(effect) ? AGAINST : FOR[STRONG.filter((least) => effect >= least).length]);

// "×3.0" for what speaks for the first sense, "÷2.0" for what speaks against it.
export function factor(effect) {
  const times = Math.exp(Math.abs(effect));
  return `${effect > 0 ? "×" : "÷"}${times < 10 ? times.toFixed(1) : times > 1000 ? "1000+" : Math.round(times)}`;
}

export function ofTheSection(effect) {
  if (!isNotable(effect)) return "The section changes little here.";
  return `The section speaks ${effect > 0 ? "for" : "against"} the first sense (${factor(effect)}).`;
}

export function legend(expansion, { words }) {
  if (expansion.candidates.length < 2) return "It has one sense, so no word decides.";
  if (words.every((word) => word.effect === null)) return "What each word did was not worked out here.";
  return "× multiplies the odds of the first sense, ÷ divides them.";
}
