"""A Hugging Face checkpoint made on the spot: a BERT of two layers and a vocabulary of words."""

import json
from pathlib import Path

import torch

WORDS = "pt gait stairs physical therapy bleeding prothrombin time the with . ,".split()


def write_checkpoint(folder: Path, *, seed: int = 0, pooling: dict[str, bool] | None = None) -> Path:
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *WORDS]) + "\n", encoding="utf-8")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(special) + len(WORDS),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({"word_embedding_dimension": 8, **pooling}), encoding="utf-8"
        )
    return folder
