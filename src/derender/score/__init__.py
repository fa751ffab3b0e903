"""Scores: metrics, evaluation sets, readers to compare with, reports.

The modules are imported where they are used: apted and lxml (extra "score") only for tables, RapidOCR and Tesseract
only by their readers. Does not train and does not choose files: the caller names the evaluation set.
"""
