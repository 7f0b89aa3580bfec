"""ELMo, the paper's baseline: a bidirectional language model with character inputs, trained on the same corpus.

result = train.train_language_model(corpus, config=..., settings=..., output=...)   # until its held-out loss is flat
training = record.language_model_record(result, settings=...)
folder.save_language_model(result.model, "model", corpus=corpus, training=training), folder.load_language_model("model")
layout.is_language_model(folder), layout.read_folder(folder)     # without torch, which all the rest needs
"""
