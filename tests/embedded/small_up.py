"""A `wireroom up` with small programs in place of the application, run as a process by tests.

Usage: small_up.py DATA_DIR PORT [MODE]. Every program writes a line to DATA_DIR/story when it
starts and when it stops, so that a test can read the order.
"""

import sys
from pathlib import Path

import click

from dashboard.commands.supervised import answers
from dashboard.embedded import up
from dashboard.embedded.process import Program
from dashboard.settings import Settings

# Says when it starts, and on SIGTERM that it stops; leaves a grandchild in its process group.
ACTOR = """
import os, signal, sys, time
name, story = sys.argv[1:3]
def tell(what):
    with open(story, "a") as file:
        file.write(f"{what} {name} {os.getpid()}\\n")
def stop(*_):
    tell("stop")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
tell("start")
while True:
    time.sleep(1)
"""
# Ties its own child as the web server's worker processes are tied, then serves.
WEB = """
import http.server, os, signal, subprocess, sys
from dashboard.embedded.tether import die_with_parent
name, story, port = sys.argv[1:4]
child = os.fork()
if child == 0:
    die_with_parent(parent=os.getppid())
    signal.pause()
with open(story, "a") as file:
    file.write(f"start {name} {os.getpid()}\\nstart {name}-worker {child}\\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""
MIGRATION = (
    "import sys; open(sys.argv[1], 'a').write('ran migrate 0\\n'); sys.exit(int(sys.argv[2]))"
)


def _python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def main(data_dir: Path, port: int, mode: str = "") -> int:
    """Run it."""
    story = str(data_dir / "story")

    def plan(_settings: Settings, web_port: int) -> up.Application:
        migration = _python(MIGRATION, story, "3" if mode == "bad-migration" else "0")
        return up.Application(
            before=(Program("migrate", migration),),
            services=(
                Program(
                    "web",
                    _python(WEB, "web", story, str(web_port)),
                    stage=5,
                    is_ready=lambda _: answers(web_port),
                ),
                Program("worker", _python(ACTOR, "worker", story), stage=3),
                Program("scheduler", _python(ACTOR, "scheduler", story), stage=4),
            ),
            after=(Program("hello", _python("print('the setup link')")),),
        )

    return up.run(data_dir, port, plan, click.echo)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
