"""Reconciling: the periodic pass that finds and repairs what went silent, one rule each."""
