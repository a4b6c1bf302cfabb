"""What became of a dispatch, told: its sentence, its timeline, its page."""
