"""How rates change as tables, processes, workers and routes become more."""
