"""Single lines of text that people write: names, addresses, reasons."""

import re
import unicodedata
from typing import LiteralString

# Without control characters, line breaks and marks that change the reading direction: each can make a name
# look like another one on the screen. At least one character is not a space.
_REFUSED = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
LINE_PATTERN = rf"^[^{_REFUSED}]*[^\s{_REFUSED}][^{_REFUSED}]*$"


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
    if all(unicodedata.category(character) in ("Cf", "Zs") for character in line):
        raise Malformed("text_blank")
    if not re.fullmatch(LINE_PATTERN, line):
        raise Malformed("text_unprintable")
    return line
