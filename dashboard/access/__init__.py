"""Who may see and do what: users, sources, grants, sessions, tokens, activity."""
