"""The machinery that sends: which worker is alive, what it runs, when tasks ran."""
