"""`lmcells inspect neighbors | senses | mixtures | vectors | uncertainty`: what words mean to a model."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from string import ascii_uppercase

from lmcells.analysis import Row
from lmcells.analysis.cells import (
    FORMATS,
    WordCells,
    require_format,
    section_vectors,
    word_vectors,
    write_vectors,
)
from lmcells.analysis.gaussian_mixture import N_SAMPLES
from lmcells.analysis.mixtures import MOST_WORDS, compare, phrase_mixture, section_mixture
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.senses import AGAINST, MEASURES, measure_movement, nearest_words, word_senses
from lmcells.analysis.statistics import N_RESAMPLES, with_interval
from lmcells.analysis.uncertainty import MIN_COUNT, VARIANCES, associations, named_words, word_variances
from lmcells.cli import inspect_view as views
from lmcells.cli.arguments import Command, Options, picked
from lmcells.cli.terminal import print_columns, print_result, print_rows, table
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder


def _add_neighbors(add: Options) -> None:
    add("word WORD", "a word that the model knows")
    add("--section NAME", f'the section it is in, or "{NULL_SECTION}" (its average over sections)')
    text = "the other words' cells: under the same section, or expected over their own sections"
    add("--against", text, one_of=AGAINST)
    add("--by", "KL divergence of the cells, or cosine of their means", one_of=MEASURES, dest="measure")
    views.add_min_count(add)
    add("--top N", "list N words", number=10, dest="n")


def _look_at_neighbors(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    found = nearest_words(WordCells(model), **picked(options, nearest_words))
    yield found, views.draw(options, "figures.draw_nearest_words", found)
    if found.section is None:
        where, moved = f"on average, seen {found.count:,} times", ""
    else:
        seen = "" if found.count_in_section is None else f" ({found.count_in_section:,} of them here)"
        where = f"under {found.section}, seen {found.count:,} times{seen}"
        moved = f"; {found.moved:.2f} nats from its average meaning"
    print(f"{found.word} {where}; variance {found.variance:.2f}{moved}")
    columns = "nearest {word} | KL {divergence:.2f} | cosine {cosine:.2f} | seen {count:,}"
    print_rows(found.neighbors, columns)


def _add_senses(add: Options) -> None:
    add("word WORD", "a word that the model knows")
    add("--sections NAME", "sections to look at", nargs="+", default=[])
    add("--words WORD", "words to compare it with", nargs="+", default=[])
    add("--n-sections N", "sections to choose, if none are given", number=6)
    add("--n-words N", "words to choose, if none are given", number=12)
    add("--top N", "list N nearest words for each section", number=5, dest="n_neighbors")
    views.add_min_count(add)


def _look_at_senses(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    cells = WordCells(model)
    senses, movement = word_senses(cells, **picked(options, word_senses)), measure_movement(cells)
    yield {**senses, "movement": movement}, views.draw(options, "figures.draw_senses", senses)
    print(f"{senses.word}, seen {senses.count:,} times")
    every = [*senses.sections, senses.average]
    letters = [_letter(column) for column in range(len(senses.sections))]
    rows = []
    for letter, sense in zip([*letters, ""], every, strict=True):
        near = ", ".join(each.word for each in sense.neighbors)
        rows.append(Row(sense, letter=letter, section=sense.section or "average", near=near))
    columns = "{letter} | section {section} | seen {count:,} | moved {moved:.2f} | nearest words {near}"
    print_rows(rows, columns, left=(0, 1, 4))
    print()
    shares = []
    for word, *of_word, average in zip(senses.words, *(sense.likenesses for sense in every), strict=True):
        moved = (f"{each.probability:.0%} x{each.ratio:.1f}" for each in of_word)
        shares.append((word, *moved, f"{average.probability:.0%}"))
    print_columns([("", *letters, "average"), *shares])
    print(
        f"\nIn this model two sections are {movement.between_sections:.2f} nats apart for a word, two words "
        f"{movement.between_words:.2f} under a section.\nOf the variance of the means {movement.of_words:.0%} is the "
        f"word's, {movement.of_sections:.0%} the section's (the same for all words), {movement.of_pairs:.0%} their "
        "combination's."
    )


def _letter(column: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    more, letter = divmod(column, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[letter]


def _add_mixtures(add: Options) -> None:
    add("names NAME", "a word or phrase; with --sections, a section", nargs="+")
    add("--sections", "the names are sections")
    add("--top N", "list N components of each mixture, the heaviest", number=5, least=0)
    add("--samples N", "draws from each mixture", number=N_SAMPLES, least=2, dest="n_samples")
    add("--seed N", "random seed", number=0, least=0)


def _look_at_mixtures(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    mixture = section_mixture if options.sections else phrase_mixture
    by_name = {marginal.name: marginal for marginal in (mixture(model, name) for name in options.names)}
    marginals = list(by_name.values())
    data = compare(marginals, **picked(options, compare))
    part = "word" if options.sections else "section"
    yield data, views.draw(options, "point_figures.draw_mixtures", marginals, data.divergences, part=part)
    for each in data.marginals:
        covered = "" if each.covered > 0.9995 else f" with {each.covered:.0%} of the weight"
        seen = "" if each.n_seen is None else f" of {each.n_seen:,}"
        variance = Row(each.variance)
        print(
            f"{each.name}: {each.n_components:,} {part}s{covered}, counted on {each.n_counted:,}{seen} occurrences\n"
            f"  variance {variance.total:.4f} = {variance.within:.4f} within {part}s + {variance.between:.4f} "
            f"between them; effectively {each.n_effective:.1f} {part}s\n"
            f"  a meaning carries {_with_error(each.information)} nats about its {part}"
        )
        if options.top:
            columns = part + " {name} | weight {weight:.3f} | variance {variance:.3f}"
            print_rows(each.components[: options.top], columns)
        print()
    if not data.divergences:
        return
    n_samples = max(each.sampled["n_samples"] for each in data.divergences)
    print(f"KL(one || other) in nats, {n_samples:,} draws")
    columns = "{from} || {to} | sampled {sampled} | variational {variational:.2f} | matched {matched:.2f} | "
    rows = [{**each, "sampled": _with_error(each.sampled)} for each in data.divergences]
    print_rows(rows, columns + "convex {convex:.2f}")


def _with_error(found: Mapping[str, float]) -> str:
    error = found["standard_error"]
    return f"{found['value']:.2f}" + (f" ± {error:.2f}" if error else "")


_VECTORS_OF = {"words": word_vectors, "sections": section_vectors}


def _add_vectors(add: Options) -> None:
    add("--output FILE", f"write the vectors ({', '.join(FORMATS)})", required=True, type=Path)
    add.overwrite(replaces="a file")
    add("--what", "whose vectors", one_of=tuple(_VECTORS_OF))
    views.add_model(add)


def _write_vectors(options: argparse.Namespace) -> None:
    format_ = require_format(options.output)
    model = PretrainedModel.from_pretrained(model_folder(options.model))
    names, vectors = _VECTORS_OF[options.what](model)
    write_vectors(options.output, (names, vectors))
    summary = {"format": format_, options.what: len(names), "dimensions": vectors.shape[1]}
    n_left_out = len(getattr(model, options.what)) - len(names)
    left_out = [("left out, no word counted", n_left_out)] if n_left_out else []
    data = {"output": str(options.output), **summary, "left_out": n_left_out}
    print_result(options, data, [(str(options.output), [*summary.items(), *left_out])])


def _add_uncertainty(add: Options) -> None:
    add("words WORD", "words to show as well, marked in the figure", nargs="*")
    text = "rank words by the variance within their cells, between their sections, or in total"
    add("--by", text, one_of=VARIANCES)
    add("--top N", "list N words from each end", number=8, least=0)
    add("--min-count N", "only words seen N times or more in training", number=MIN_COUNT)
    views.add_inventory(add)
    add("--resamples N", "resamples of the bootstrap", number=N_RESAMPLES, least=20)
    add("--seed N", "random seed of the bootstrap", number=0, least=0)


def _look_at_uncertainty(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    measured = word_variances(model, inventory=views.open_inventory(options), min_count=options.min_count)
    named = named_words(model, measured, options.words)
    rhos = associations(measured, n_resamples=options.resamples, seed=options.seed)
    most = sorted(measured, key=lambda row: -row[options.by])[: options.top]
    least = sorted(measured, key=lambda row: row[options.by])[: options.top]
    data = {"by": options.by, "n_words": len(measured), "words": named, "most": most, "least": least}
    data["associations"] = rhos
    yield data, views.draw(options, "point_figures.draw_uncertainty", measured, rhos, named=named)
    print(f"{len(measured):,} words seen {options.min_count:,} times or more")
    columns = "{word} | count {count:,} | sections {n_sections:.1f} | senses {n_senses} | "
    columns += "within {within:.4f} | percentile {percentile:.0f} | between {between:.4f} | total {total:.4f}"
    rows = table([], columns)
    largest, smallest = f"largest variance {options.by}:", f"smallest variance {options.by}:"
    for title, group in {"asked for:": named, largest: most, smallest: least}.items():
        words = []
        for each in group:
            shown = {"n_senses": each.n_senses or None, "percentile": 100 * each.share_below}
            words.append(Row(each, word=f"  {each.word}", **shown))
        rows += [[title, *[""] * 7], *table(words, columns)[1:]] if words else []
    print_columns(rows)
    print("\nSpearman's rank correlation [95 %]")
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    for each in rhos:
        against = each.against + (f", {each.given} fixed" if each.given else "")
        by_row.setdefault((against, f"{each.n_words:,}"), {})[each.variance] = with_interval(each.rho)
    found = [(*names, *(rho.get(name, "-") for name in VARIANCES)) for names, rho in by_row.items()]
    print_columns([("", "words", *VARIANCES), *found])


_VECTORS = """\
write the expected meaning of every word or section as vectors (word2vec, gensim)

Write the expected meaning of every word, over the sections that it occurs in, or of every section, over its words, in
word2vec's text (.txt, .vec) or binary (.bin) format. Spaces in names become underscores: PAST_MEDICAL_HISTORY.

examples:
  lmcells inspect vectors --output words.bin
  lmcells inspect vectors --what sections --output sections.txt
then, in Python:
  KeyedVectors.load_word2vec_format("words.bin", binary=True).most_similar("fever")"""
_NEIGHBORS = f"""\
the words nearest to a word, under a section

List the words nearest to a word's cell p(z | word, section). Without --section: to its expected meaning over the
sections that it was seen in; with --section "{NULL_SECTION}": to its cell with null metadata. The other words' cells
are taken under the same section, or (--against expected) are expected over their own sections, which also shows where
the section pulls the word.

examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect neighbors history --section "SOCIAL HISTORY" --against expected --output history.svg"""
_SENSES = """\
what a word is near to under different sections

Compare a word's cell under each section with a list of words. The probabilities are a softmax of -KL(p(z | word,
section) || the other word's expected meaning) over the list; "x1.4" means 1.4 times as likely as for the word's average
meaning: that is where the section pulls it. Without --sections: those in which the word was seen most. Without --words:
frequent words that distinguish the sections.

examples:
  lmcells inspect senses history --sections "SOCIAL HISTORY" "FAMILY HISTORY" --words smoking mother
  lmcells inspect senses cold --output cold.svg"""
_MIXTURES = f"""\
words or sections as mixtures of Gaussians, and the divergences between them

A word is a mixture of its cells under each section that it occurs in; a section (--sections) is a mixture of the cells
of its {MOST_WORDS:,} likeliest words. Each is described and compared with the others by KL(one || other) in nats:
sampled, with its standard error; variational and matched, two approximations; and convex, an upper bound.

examples:
  lmcells inspect mixtures cold fever "heart failure" --output mixtures.svg
  lmcells inspect mixtures --sections "SOCIAL HISTORY" "FAMILY HISTORY" MEDICATIONS"""
_UNCERTAINTY = """\
words by prior variance, against frequency and number of senses

Show how sure the model is of its words before it reads any context: the variance of their cells within a section, and
between their sections. Below the most and least certain words are rank correlations (Spearman; 95 % by bootstrap over
words) with frequency, the effective number of sections, and the number of long forms of a short form in an inventory.

examples:
  lmcells inspect uncertainty
  lmcells inspect uncertainty history cold ms --by between --output uncertainty.svg"""
NEIGHBORS = views.view(_NEIGHBORS, _add_neighbors, _look_at_neighbors)
SENSES = views.view(_SENSES, _add_senses, _look_at_senses)
MIXTURES = views.view(_MIXTURES, _add_mixtures, _look_at_mixtures)
VECTORS = Command(_VECTORS, _add_vectors, _write_vectors)
UNCERTAINTY = views.view(_UNCERTAINTY, _add_uncertainty, _look_at_uncertainty)
