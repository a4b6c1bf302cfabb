"""What a person can press: which buttons there are, and what each does."""
