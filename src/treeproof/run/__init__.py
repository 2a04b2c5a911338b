"""How work is done: limits and the stop token, workers and how models reach them, progress."""
