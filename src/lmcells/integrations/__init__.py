"""Whole files of notes, the engines that share the work, and exports to other formats and tools.

spaCy, Ray and PySpark are optional: each module imports only what it needs.
"""
