"""Services, rooms, and which worker does which service in which rooms."""
