"""What is kept no longer: bodies, dispatches with all that follows them, files."""
