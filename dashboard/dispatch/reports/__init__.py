"""What providers say later: stored, matched, applied, asked for, shown."""
