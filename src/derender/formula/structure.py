"""What may follow what in target tokens: braces, arguments, scripts and environments, token by token.

A state machine, so that a reading can be kept well-formed while it is put together (path.py). It knows the target
spelling (spelling.py): every argument in braces, no other braces, subscript before superscript, `&` in arrays only.
Says nothing about meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

_ONE = frozenset(
    r"""\mathrm \mathbf \mathit \mathcal \mathsf \mathtt \mathfrak \mathbb \mathscr \hat \tilde \bar \vec \dot \ddot
    \dddot \check \breve \acute \grave \mathring \underline \overbrace \underbrace \overrightarrow \overleftarrow
    \pmod \boxed \not \substack""".split()
)
_TWO = frozenset(r"\frac \binom \overset \underset \atop".split())


@dataclass(frozen=True)
class Structure:
    """Where a formula stands. stack: open groups and environments, each with the scripts that its atom had; need: the
    argument that must open next ("" for none); scripts: what the last atom has, of "_" and "^"."""

    stack: tuple[tuple[str, str], ...] = ()
    need: str = ""
    scripts: str = ""

    @property
    def complete(self) -> bool:
        """Whether the formula may end here."""
        return not self.stack and not self.need

    def push(self, token: str) -> Structure | None:
        """The state after `token`; None where it may not stand here."""
        if self.need:
            if token == "{":
                return Structure((*self.stack, (self.need, self.scripts)))
            if token == "[" and self.need == r"\sqrt":
                return Structure((*self.stack, ("[", "")))
            return None
        top, outer = self.stack[-1] if self.stack else ("", "")
        if token == "{":
            return None
        if token == "}":
            if top in ("", "[") or top.startswith(r"\begin"):
                return None
            below = Structure(self.stack[:-1])
            if top == "first":
                return replace(below, need="second")
            return replace(below, scripts=outer + top) if top in "_^" else below
        if token == "]" and top == "[":
            return Structure(self.stack[:-1], need="argument")
        if token in ("_", "^"):
            if token in self.scripts or "^" in self.scripts:
                return None
            return replace(self, need=token)
        if token.startswith(r"\beginenv"):
            return Structure((*self.stack, (token, "")))
        if token.startswith(r"\endenv"):
            return Structure(self.stack[:-1]) if top == token.replace(r"\end", r"\begin", 1) else None
        if token == "&" and top != r"\beginenvarray" or token == r"\\" and not top.startswith(r"\beginenv"):
            return None
        need = "argument" if token in _ONE else "first" if token in _TWO else token if token == r"\sqrt" else ""
        return Structure(self.stack, need)

    def push_all(self, tokens: Iterable[str]) -> Structure | None:
        """The state after several tokens."""
        state: Structure | None = self
        for token in tokens:
            state = state.push(token) if state else None
        return state


def well_formed(tokens: Iterable[str]) -> bool:
    """Whether target tokens are a whole formula."""
    state = Structure().push_all(tokens)
    return state is not None and state.complete
