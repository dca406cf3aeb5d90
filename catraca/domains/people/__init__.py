"""People: who they are, what they may do, and what is kept of them."""

from catraca.domains.people.service import ensure_user

__all__ = ["ensure_user"]
