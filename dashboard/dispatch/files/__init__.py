"""Files that messages carry: stored, loaded, checked."""
