"""Figures of the product, printed as tables; never part of a verdict, because machines are noisy."""
