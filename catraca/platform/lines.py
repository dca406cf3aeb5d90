"""Single lines of text that people write: names, e-mail addresses, reasons."""

import re
import unicodedata
from typing import LiteralString

# Without control characters, line breaks and marks that change the reading direction: each can make a name
# look like another one on the screen. At least one character is not a space.
_REFUSED = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
LINE_PATTERN = rf"^[^{_REFUSED}]*[^\s{_REFUSED}][^{_REFUSED}]*$"
# Refuses obvious mistakes only; a delivered message is the proof of an address.
EMAIL_PATTERN = (
    r"^[^\s@<>()\[\],;:\\\x22\u0000-\u001f\u007f]{1,64}"
    r"@([^\W_]([\w-]{0,61}[^\W_])?\.)+[^\W_]([\w-]{0,61}[^\W_])?$"
)
_LINE, _EMAIL = re.compile(LINE_PATTERN), re.compile(EMAIL_PATTERN)
NAME_MAX_CHARACTERS = 120
EMAIL_MAX_CHARACTERS = 254


class Malformed(ValueError):
    """A text that a field cannot accept. `code` is the reason; `texts` holds its words."""

    def __init__(self, code: LiteralString) -> None:
        super().__init__(code)
        self.code: LiteralString = code


def clean_line(text: str, *, max_characters: int) -> str:
    """The text composed (NFC) and trimmed; raises `Malformed` if it is blank, too long or unprintable."""
    line = unicodedata.normalize("NFC", text).strip()
    if len(line) > max_characters:
        raise Malformed("text_too_long")
    if line and line.isascii() and line.isprintable():
        return line  # much faster than looking at each character
    if all(unicodedata.category(character) in ("Cf", "Zs") for character in line):
        raise Malformed("text_blank")
    if not _LINE.fullmatch(line):
        raise Malformed("text_unprintable")
    return line


def clean_name(text: str) -> str:
    return clean_line(text, max_characters=NAME_MAX_CHARACTERS)


def clean_email(text: str) -> str:
    """The address as written, composed (NFC); raises `Malformed`."""
    email = unicodedata.normalize("NFC", text)
    # Folding may lengthen the address; the database indexes the folded form.
    if max(len(email), len(fold_email(email))) > EMAIL_MAX_CHARACTERS:
        raise Malformed("text_too_long")
    if _has_invisible(email) or not _EMAIL.fullmatch(email):
        raise Malformed("email_malformed")
    return email


def _has_invisible(text: str) -> bool:
    if text.isascii():  # much faster than looking at each character
        return not text.isprintable()
    return any(unicodedata.category(character).startswith("C") for character in text)


def fold_email(email: str) -> str:
    """The form in which all spellings of one address are equal (Unicode NFKC and case folding)."""
    if email.isascii():
        return email.lower().strip()  # the same result in a tenth of the time
    folded = unicodedata.normalize("NFD", email).casefold()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", folded).casefold()).strip()
