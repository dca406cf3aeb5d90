"""Pix codes: a static code of the co-operative's key for what is due of a charge, made without any call."""
