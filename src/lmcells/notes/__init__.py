"""Raw files -> notes -> sections -> tokens with character offsets."""
