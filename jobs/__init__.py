"""Entry points of RQ jobs and processes: load, call, report. The rules are in `dashboard`."""
