"""Looking inside a trained model: gates, interpolation, senses, neighbours, sections, mixtures and vectors."""
