"""Loaders for frameworks of retrieval: `derender.integrations.langchain` and `.llamaindex`, each with its own extra.

Import from the modules; this one imports neither framework.
"""
