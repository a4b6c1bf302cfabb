"""What the web server loads in each of its worker processes."""

import multiprocessing

from flask import Flask

from dashboard.app import create_app
from dashboard.embedded.tether import die_with_parent


def load() -> Flask:
    """Tie this process to the server process that started it, and return the application.

    The web server's workers would otherwise outlive a `kill -9` of their parent and keep the port.
    """
    parent = multiprocessing.parent_process()
    die_with_parent(parent=parent.pid if parent else None)
    return create_app()
