"""Small models that rank by masked spans, and notes of a ward that writes otherwise than the clinic."""

import random
from pathlib import Path

from corpora import corpus_of
from expansion.clinic import WORDS_OF, random_network
from lmcells.corpus import Corpus
from lmcells.expansion import Sense, SenseInventory
from lmcells.model import ModelConfig
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.training import TrainingSettings
from lmcells.training.cells import train
from lmcells.training.prototypes import build_prototypes

SETTINGS = TrainingSettings(
    epochs=12,
    batch_size=128,
    learning_rate=0.01,
    subsampling=0.0,
    smoothing=0.0,
    contrastive_weight=2.0,
    phrase_weight=2.0,
    contrastive_spans=24,
    contrastive_max_words=2,
)
# To a model that knows neither "rehearsal" nor "titration" they are the same.
REHEARSAL = Sense("PT", "multiple rehearsal", ("multiple rehearsal",))
TITRATION = Sense("PT", "multiple titration", ("multiple titration",))
WARD_INVENTORY = SenseInventory.from_senses([REHEARSAL, TITRATION])
WARD_HEADERS = {"PLAN": "TREATMENT PLAN", "LABS": "BLOOD WORK"}  # an alias of PLAN; nothing the model knows
UNKNOWN_WORDS = ("ambulating", "zinc", "aardvark", "bedside")


def trained_model(folder: Path, corpus: Corpus) -> PretrainedModel:
    """Train on a corpus of the clinic, with all that ranking by masked spans needs."""
    config = ModelConfig(
        n_words=len(corpus.words),
        n_metadata=corpus.n_metadata("section"),
        cell_dim=12,
        embedding_dim=12,
        hidden_dim=12,
        window=4,
        phrase_dim=16,
        masks_span=True,
    )
    result = train(corpus, model_config=config, settings=SETTINGS, output=folder / "run", device="cpu")
    prototypes = build_prototypes(result.model, corpus, settings=SETTINGS)
    save_pretrained(result.model, folder / "model", corpus=corpus, prototypes=prototypes)
    return PretrainedModel.from_pretrained(folder / "model")


def stored_model(folder: Path, corpus: Corpus, kind: str = "lmc") -> PretrainedModel:
    """A model that was never trained, with a phrase store."""
    network = random_network(corpus, kind, phrase_dim=4, masks_span=True)
    prototypes = build_prototypes(network, corpus, settings=SETTINGS)
    save_pretrained(network, folder, corpus=corpus, prototypes=prototypes)
    return PretrainedModel.from_pretrained(folder)


def ward_corpus(folder: Path, *, n_notes: int = 24, seed: int = 5) -> Corpus:
    """Long forms that the clinic never wrote, among its words and others, under headers that it has not."""
    draw = random.Random(seed)
    long_form_of = {"PLAN": REHEARSAL.long_form, "LABS": TITRATION.long_form}
    notes = []
    for index in range(n_notes):
        sections = []
        for kind, words in WORDS_OF.items():
            body = [draw.choice(words) for _ in range(12)]
            body[2], body[9] = draw.sample(UNKNOWN_WORDS, 2)
            body[6] = long_form_of[kind]
            sections.append({"header": WARD_HEADERS[kind], "text": " ".join(body)})
        notes.append({"id": f"ward/{index}", "sections": sections})
    return corpus_of(folder, notes)


def masked_span_texts(kind: str) -> list[str]:
    """Texts of one kind of section, with PT in the middle."""
    words = WORDS_OF[kind]
    return [
        f"{words[i % 6]} {words[(i + 1) % 6]} PT {words[(i + 2) % 6]} {words[(i + 3) % 6]}" for i in range(6)
    ]
