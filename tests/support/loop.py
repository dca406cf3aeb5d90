"""The event loop of the tests."""

import warnings

import uvloop


class TestLoop(uvloop.Loop):
    """uvloop, as Catraca uses it. `close` raises if a test left a connection or a server open."""

    # Not a test class.
    __test__ = False

    def close(self) -> None:
        """Close all handles, then raise uvloop's first warning of one that was open.

        In the tests warnings are errors. Raised inside uvloop, such an error would leave the handle open, and
        uvloop would wait for it for ever.
        """
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            super().close()
        if found:
            raise ResourceWarning(str(found[0].message))
