"""Doubles made from the real contract, for what cannot be run here."""
