"""ELMo, the paper's baseline: a bidirectional language model with character inputs, trained on the same corpus.

result = train.train_language_model(corpus, config=..., settings=..., output=...)   # until its held-out loss is flat
folder.save_language_model(result.model, Path("model"), corpus=corpus, training=result.record)
folder.load_language_model(Path("model"))
folder.is_language_model(Path("model")), folder.read_folder(Path("model"))   # without torch, which the rest needs
"""
