"""The outside world, in our words: one module for each way out."""
