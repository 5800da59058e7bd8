"""Every screen of the window in its states, light and dark, as PNG: ``python -m tests.pictures OUT``."""
