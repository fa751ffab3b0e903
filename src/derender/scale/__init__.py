"""Millions of pages on a Ray cluster: plan.py says what is to be read, store.py keeps what has been, work.py reads, and
run.py hands out the work. Needs the extra `ray`; nothing here imports it, or fsspec, before it is used.
"""
