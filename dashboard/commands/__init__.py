"""The commands of `wireroom`, one module per family; `COMMANDS` is the list of them.

To add one, write a click command and name it here. A command is imported only when it is used (or
by `wireroom --help`), so that a worker does not pay for what the account commands need.
"""

COMMANDS = {
    "up": "dashboard.commands.serve:up",
    "web": "dashboard.commands.web:web",
    "worker": "dashboard.commands.serve:worker",
    "scheduler": "dashboard.commands.serve:scheduler",
    "sandbox": "dashboard.commands.serve:sandbox",
    "send-email": "dashboard.commands.dispatches:send_email",
    "send-sms": "dashboard.commands.dispatches:send_sms",
    "demo": "dashboard.commands.demo:demo",
    "reconcile": "dashboard.commands.repairs:reconcile",
    "show": "dashboard.commands.dispatches:show",
    "user": "dashboard.commands.accounts:user",
    "token": "dashboard.commands.accounts:token",
    "setup-link": "dashboard.commands.accounts:setup_link",
    "migrate": "dashboard.commands.migrate:migrate",
    "doctor": "dashboard.commands.doctor:doctor",
    "bench": "dashboard.commands.bench:bench",
}
"""Command name → where it is, in the order of `wireroom --help`."""
