"""Exceptions whose message is one clear sentence for the person who ran the command.

Everything that a caller may want to catch derives from DerenderError. Does not decide exit codes (cli.py does).
"""

from __future__ import annotations


class DerenderError(Exception):
    """Base of all errors that derender raises on purpose; str(error) is one sentence without a traceback."""


class InputError(DerenderError):
    """The input cannot be read as a document: missing, empty, truncated, of unknown kind, or without pages."""


class PasswordError(InputError):
    """The PDF is encrypted and no password, or a wrong one, was given."""


class PageError(DerenderError):
    """One page cannot be loaded or rendered; the rest of the document may be fine."""


class UsageError(DerenderError):
    """An option has a value that makes no sense (exit code 2)."""


class ModelError(DerenderError):
    """Weights are missing, incomplete, or do not fit the code."""


class CapacityError(ModelError):
    """Memory ran out for one request; it may fit when others have finished."""


class ServerError(ModelError):
    """A model server cannot be reached or refuses: no other request would fare better, so the run ends."""


class MissingExtraError(DerenderError):
    """An optional dependency is needed: the message names the extra to install."""
