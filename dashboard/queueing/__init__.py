"""The queues: their names, the jobs on them, and the only writer to them."""
