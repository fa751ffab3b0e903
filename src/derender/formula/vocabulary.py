"""The tokens of the formula decoder: a fixed list, numbered by position; weights depend on the order.

Everything is a target token (spelling.py). Formulas with other tokens (Cyrillic, rare symbols, macros) are not in the
vocabulary: encode_tokens says so with None and such a formula is no training sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MASK, EOS = 0, 1
_SPECIAL = ("<mask>", "<eos>")
_CHARACTERS = tuple(c for c in map(chr, range(33, 127)) if c not in "\\%#$~'\"`") + (
    r"\\", r"\{", r"\}", r"\|", r"\%", r"\#", r"\&", r"\$", r"\_",
)  # fmt: skip
_GREEK = tuple(
    r"""\alpha \beta \gamma \delta \epsilon \varepsilon \zeta \eta \theta \vartheta \iota \kappa \lambda \mu \nu \xi
    \pi \varpi \rho \varrho \sigma \varsigma \tau \upsilon \phi \varphi \chi \psi \omega \Gamma \Delta \Theta \Lambda
    \Xi \Pi \Sigma \Upsilon \Phi \Psi \Omega""".split()
)
_SYMBOLS = tuple(
    r"""\infty \partial \nabla \hbar \ell \imath \jmath \Re \Im \aleph \wp \emptyset \forall \exists \neg \prime
    \dagger \ddagger \star \circ \bullet \cdot \cdots \ldots \vdots \ddots \times \div \pm \mp \oplus \ominus \otimes
    \odot \wedge \vee \cap \cup \setminus \sqcup \sqcap \uplus \amalg \diamond \triangle \triangleright \triangleleft
    \bigtriangleup \Box \square \leq \geq \neq \equiv \sim \simeq \approx \cong \propto \ll \gg \prec \succ \preceq
    \succeq \lesssim \gtrsim \subset \supset \subseteq \supseteq \in \notin \ni \perp \asymp \doteq \vdash \models
    \rightarrow \leftarrow \leftrightarrow \Rightarrow \Leftarrow \Leftrightarrow \longrightarrow \longleftarrow
    \longleftrightarrow \Longrightarrow \Longleftrightarrow \mapsto \longmapsto \hookrightarrow \rightharpoonup
    \rightleftharpoons \uparrow \downarrow \updownarrow \nearrow \searrow \langle \rangle \lfloor \rfloor \lceil \rceil
    \sum \prod \coprod \int \iint \iiint \oint \bigcup \bigcap \bigoplus \bigotimes \bigwedge \bigvee \angle \top \bot
    \surd \S \P \dashv \natural \sharp \flat""".split()
)
_OPERATORS = tuple(
    r"""\arccos \arcsin \arctan \arg \cos \cosh \cot \coth \csc \deg \det \dim \exp \gcd \hom \inf \ker \lg \lim
    \liminf \limsup \ln \log \max \min \sec \sin \sinh \sup \tan \tanh""".split()
)
_STRUCTURE = tuple(
    r"""\frac \binom \sqrt \overset \underset \underline \overbrace \underbrace \overrightarrow \overleftarrow \atop
    \pmod \boxed \not \substack \mathrm \mathbf \mathit \mathcal \mathsf \mathtt \mathfrak \mathbb \mathscr \hat \tilde
    \bar \vec \dot \ddot \dddot \check \breve \acute \grave \mathring \beginenvarray \endenvarray \beginenvaligned
    \endenvaligned""".split()
)
FORMULA_TOKENS: tuple[str, ...] = (*_SPECIAL, *_CHARACTERS, *_GREEK, *_SYMBOLS, *_OPERATORS, *_STRUCTURE)
_IDS = {token: i for i, token in enumerate(FORMULA_TOKENS)}


def encode_tokens(tokens: Sequence[str]) -> list[int] | None:
    """Numbers of target tokens, without an end mark; None where a token is not in the vocabulary."""
    ids = [_IDS.get(token, -1) for token in tokens]
    return None if any(i <= EOS for i in ids) else ids


def decode_ids(ids: Sequence[int]) -> list[str]:
    """Tokens up to the first end mark; IndexError for a number outside the vocabulary."""
    out: list[str] = []
    for i in ids:
        if i == EOS:
            break
        if not 0 <= i < len(FORMULA_TOKENS):
            raise IndexError(f"{i} is no formula token (there are {len(FORMULA_TOKENS)})")
        out.append(FORMULA_TOKENS[i])
    return out


@dataclass(frozen=True)
class FormulaVocab:
    """The numbers as the decoder's engine knows them: the begin mark stands behind the list."""

    @property
    def mask_id(self) -> int:
        return MASK

    @property
    def eos_id(self) -> int:
        return EOS

    @property
    def bos_id(self) -> int:
        return len(FORMULA_TOKENS)

    @property
    def soft_ids(self) -> tuple[int, ...]:
        """Braces and scripts: what a reading most often has too many or too few of (the aligner's cheap edits)."""
        return tuple(_IDS[t] for t in ("{", "}", "_", "^"))

    def __len__(self) -> int:
        return len(FORMULA_TOKENS) + 1

    def piece(self, token_id: int) -> str:
        """The token's name; nothing for marks. Raises ValueError for the mask: an unfilled place has no text."""
        if token_id == MASK:
            raise ValueError("a masked position has no text")
        return FORMULA_TOKENS[token_id] if EOS < token_id < len(FORMULA_TOKENS) else ""
