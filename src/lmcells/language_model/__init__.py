"""ELMo, the paper's baseline: a bidirectional language model with character inputs, trained on the same corpus.

train.train_language_model(corpus, config=..., settings=..., output=...)
folder.save_language_model(result.model, "model", corpus=corpus), folder.load_language_model("model")
layout.is_language_model(folder)     # without torch, which all the rest needs
"""
