"""What a word means before its context is read: the model network p(z | w, m), BSG's table p(z | w), and phrases."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.model.batch import SectionDraws, or_null
from lmcells.model.config import ModelConfig
from lmcells.model.gaussian import Gaussian, at_least_float32
from lmcells.model.layers import Dropout, GaussianHeads, embed_metadata
from lmcells.model.moments import Moments, blocked_moments, linear_mixture_moments, mixture_moments

_FAR_BELOW = -1e4
LOG_VARIANCES = (-3.5, -1.5)  # of BSG at the start


class ModelNetwork(nn.Module):
    """p(z | w, m): h = ReLU(W [R_w ; R_m] + b), then a mean and a log-variance. Null metadata is R_m = 0."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.n_words, config.embedding_dim)
        self.metadata = nn.Embedding(config.n_metadata, config.embedding_dim)
        self.hidden = nn.Linear(2 * config.embedding_dim, config.hidden_dim)
        self.heads = GaussianHeads(config.hidden_dim, cell_dim=config.cell_dim)
        self.dropout = Dropout(config.dropout)
        self.hidden_dropout = Dropout(config.dropout if config.hidden_dropout else 0.0)

    def forward(self, words: Tensor, metadata: Tensor | None) -> Gaussian:
        """One Gaussian for each pair of ids, both of the same shape; metadata below 0, or None, is null."""
        return self.of_vectors(self.words(words), metadata)

    def of_vectors(self, vectors: Tensor, metadata: Tensor | None) -> Gaussian:
        """The same for word vectors (..., E), such as the mean of a phrase's words."""
        metadata = or_null(metadata, shape=vectors.shape[:-1], device=vectors.device)
        joined = torch.cat([vectors, embed_metadata(self.metadata, metadata)], dim=-1)  # (..., 2E)
        hidden = self.hidden(self.dropout(joined)).relu()
        gaussian: Gaussian = self.heads(self.hidden_dropout(hidden))
        return gaussian

    def project(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """W_w R_w + b of word vectors and W_m R_m of all metadata, so that h = ReLU of their sum: (U, H), (M, H).

        Each table is projected once and dropped out once; dropout of h is drawn once for each word.
        """
        for_words, for_metadata = self.hidden.weight.chunk(2, dim=1)  # (H, E) each
        from_words = functional.linear(self.dropout(words), for_words, self.hidden.bias)
        from_metadata = functional.linear(self.dropout(self.metadata.weight), for_metadata)
        rate = self.hidden_dropout.p
        if not self.training or rate == 0:
            return from_words, from_metadata
        # ReLU((x + y) / keep) is ReLU(x + y) / keep, and 0 where x is far below any y.
        kept = torch.rand_like(from_words, dtype=torch.float32) >= rate
        return torch.where(kept, from_words / (1 - rate), _FAR_BELOW), from_metadata / (1 - rate)

    def moments(self, draws: SectionDraws, *, variance_floor: float) -> Moments:
        """The moment table of a step: a row for each word of `draws`, a mixture over its drawn sections."""
        sections = draws.sections
        if sections is None:
            raise ValueError("draws.sections is None; the LMC needs sections (U, n) drawn for every row.")
        words = self.words.weight if draws.words is None else self.words(draws.words)  # (U, E)
        from_words, from_metadata = self.project(words)  # (U, H), (M, H)
        on_cpu = sections.device.type == "cpu"
        if on_cpu and not torch.compiler.is_compiling():
            return blocked_moments(
                from_words, from_metadata, sections, heads=self.heads, variance_floor=variance_floor
            )
        hidden = (from_words.unsqueeze(1) + functional.embedding(sections, from_metadata)).relu()  # (U, n, H)
        if on_cpu:
            return linear_mixture_moments(hidden, heads=self.heads, variance_floor=variance_floor)
        # Tensor cores make the (U, n, d) means cheap, and moments of rounded means still cancel.
        return mixture_moments(self.heads(hidden), variance_floor=variance_floor)


class WordPrior(nn.Module):
    """p(z | w): a table with one Gaussian for each id. Ids from `n_words` on are metadata that can be a center."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_words = config.n_words
        self.mean = nn.Embedding(config.n_centers, config.cell_dim)
        self.log_variance = nn.Embedding(config.n_centers, 1)

    def forward(self, centers: Tensor, metadata: Tensor | None = None) -> Gaussian:  # noqa: ARG002
        return Gaussian(self.mean(centers), self.log_variance(centers).squeeze(-1))

    def moments(self, draws: SectionDraws, *, variance_floor: float) -> Moments:
        """The same table as the LMC's, each mixture having one component. `draws.sections` is not read."""
        if draws.words is None:
            words = Gaussian(self.mean.weight[: self.n_words], self.log_variance.weight[: self.n_words, 0])
        else:
            words = self(draws.words)
        component = Gaussian(words.mean.unsqueeze(1), words.log_variance.unsqueeze(1))  # (U, 1, d)
        return mixture_moments(component, variance_floor=variance_floor)


class PhraseNetwork(nn.Module):
    """What a phrase means by its words alone, as a point among the posteriors' means; word order is not read.

    x = sum of a_i E_i with a = softmax(s . E_i); mean = V ReLU(U x + b) + c. Not in the paper, which reads a long
    form as the mean of its words' vectors: this is trained, by the contrastive loss, to lie where the posterior puts
    the masked span that the phrase leaves in a text.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.salience = nn.Linear(config.embedding_dim, 1, bias=False)
        self.hidden = nn.Linear(config.embedding_dim, config.phrase_dim)
        self.mean = nn.Linear(config.phrase_dim, config.cell_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Means of phrases from the vectors of their words: (n, L, E), (n, L) -> (n, d)."""
        vectors = self.dropout(vectors)
        scores = at_least_float32(self.salience(vectors).squeeze(-1))  # (n, L)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        pooled = (weights.unsqueeze(-1) * vectors).sum(dim=1)  # (n, L, E) -> (n, E)
        mean: Tensor = self.mean(self.hidden(pooled).relu())
        return mean
