"""What keeps a booking from being decided together with others."""

from typing import Literal

# locked: another transaction has locked the agenda or the client. special: needs a transaction of its own.
Undecided = Literal["locked", "special"]
