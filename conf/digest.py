"""A digest of Python code that comments, line breaks and docstrings do not move.

code_digest(path.read_bytes())          # "tokens:1f0c93ab6d24e750"

It is of tokens, which are the same in every Python version; bytecode and syntax trees are not.
"""

import hashlib
from collections.abc import Iterator
from io import BytesIO, StringIO
from tokenize import (
    COMMENT,
    DEDENT,
    ENDMARKER,
    INDENT,
    NEWLINE,
    NL,
    STRING,
    TokenError,
    TokenInfo,
    detect_encoding,
    generate_tokens,
    tok_name,
)

# What a digest is of stands before it, so that digests of different kinds are not compared.
TOKENS = "tokens"
BYTES = "bytes"  # of earlier versions, where nothing stands before it

_DIGITS = 16
_IGNORED = (COMMENT, NL, ENDMARKER)
_STRUCTURE = (INDENT, DEDENT)  # how deep a block is indented does not matter


def code_digest(content: bytes) -> str:
    """Return the digest of a file's code, with its kind; of code that is no Python, as while it is
    being edited, that of its bytes."""
    try:
        tokens = "\0".join(_tokens(_decoded(content)))
    except (SyntaxError, TokenError, ValueError):
        tokens = hashlib.sha256(content).hexdigest()
    return f"{TOKENS}:{hashlib.sha256(tokens.encode()).hexdigest()[:_DIGITS]}"


def digest_of_kind(kind: str, content: bytes) -> str:
    """Return the digest of a file's code as a version wrote it that had this kind of digest."""
    if kind == BYTES:
        return hashlib.sha256(content).hexdigest()[:_DIGITS]
    return code_digest(content)


def kind_of(digest: str) -> str:
    """Return the kind of a digest."""
    kind, colon, _ = digest.partition(":")
    return kind if colon else BYTES


def _decoded(content: bytes) -> str:
    encoding, _ = detect_encoding(BytesIO(content).readline)
    return content.decode(encoding).replace("\r\n", "\n")


def _tokens(text: str) -> list[str]:
    """The tokens of a text without comments, line breaks, and statements that are one string."""
    kept: list[str] = []
    statement: list[str] = []
    is_text = True
    for kind, token in _whole_strings(text):
        if kind in _IGNORED:
            continue
        if kind in _STRUCTURE:
            kept.append(tok_name[kind])
        elif kind != NEWLINE:
            statement.append(token)
            is_text &= kind == STRING and not _is_formatted(token)
        else:
            # A string that is a whole statement, as a docstring is, has no effect.
            if not is_text:
                kept += statement
                kept.append(tok_name[NEWLINE])
            statement = []
            is_text = True
    return kept


def _whole_strings(text: str) -> Iterator[tuple[int, str]]:
    """Kind and text of each token; an f-string is one, into whose parts Python 3.12 and later
    versions split it."""
    lines = text.split("\n")
    starts: list[tuple[int, int]] = []
    for token in generate_tokens(StringIO(text).readline):
        name = tok_name[token.type]
        if name.endswith("STRING_START"):
            starts.append(token.start)
        elif name.endswith("STRING_END"):
            start = starts.pop()
            if not starts:
                yield STRING, _between(lines, start, token)
        elif not starts:
            yield token.type, token.string


def _between(lines: list[str], start: tuple[int, int], last: TokenInfo) -> str:
    """The source from a line and column to the end of a token."""
    row, column = start
    end_row, end_column = last.end
    if row == end_row:
        return lines[row - 1][column:end_column]
    middle = lines[row : end_row - 1]
    return "\n".join([lines[row - 1][column:], *middle, lines[end_row - 1][:end_column]])


def _is_formatted(string: str) -> bool:
    """Whether a string is an f-string, whose expressions may have an effect."""
    prefix = string[: len(string) - len(string.lstrip("rRbBuUfFtT"))]
    return bool({"f", "F", "t", "T"} & set(prefix))
