"""Whole files of notes, engines that share the work, and the formats and tools that take what was found.

Each module needs only what it is for: spaCy, Ray and PySpark are imported where they are used.
"""
