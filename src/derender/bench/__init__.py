"""Benchmarks: how fast each decode mode is, and what its speed costs in accuracy (`derender bench`)."""
