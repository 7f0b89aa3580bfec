"""Looking inside a trained model.

words/       a word's cells: nearest words, senses by section, how far sections move it, how sure the model is
sections/    which sections are alike: nearest ones, clusters, a map; how large and topical they were in training
gate/        the weight of the section against the words, and what a short form means as it is moved by hand
mixtures/    words and sections as mixtures of cells, divergences between them, and as vectors
statistics/  the mathematics they share: divergences, rank correlations, clustering, maps
drawing/     a figure a view; the only folder that needs matplotlib
names.py     from what a person writes to a model's words and sections
"""
