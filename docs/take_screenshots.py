"""Takes the pictures in docs/screenshots: `make screenshots`. Needs a system Chromium.

Runs an installation of its own in a folder that is gone afterwards, fills it with `wireroom demo`.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "screenshots"
WIREROOM = [sys.executable, "-m", "dashboard.cli"]
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PASSWORD = "a password for pictures 7"
WIDE, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}


def main() -> None:
    """Start, take every picture, stop."""
    with tempfile.TemporaryDirectory(prefix="wireroom-pictures-") as folder:
        data_dir = Path(folder)
        data_dir.chmod(0o755)
        environment = {"WIREROOM_DATA_DIR": folder, "ASSETS": "local", "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(
            [*WIREROOM, "up", "--port", "0", "--data-dir", folder, "--demo"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            base = wait_for_address(data_dir)
            link = subprocess.run(
                [*WIREROOM, "setup-link"],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            time.sleep(6)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                take(browser, base, re.search(r"http\S+", link).group())
                browser.close()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def wait_for_address(data_dir: Path) -> str:
    """Return where the web process listens, once it answers."""
    for _ in range(120):
        try:
            servers = json.loads((data_dir / "servers.json").read_text())
            base = str(servers["public_base_url"])
            with urlopen(f"{base}/healthz", timeout=2):
                return base
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.5)
    raise SystemExit("wireroom up did not come up within a minute.")


def take(browser: Browser, base: str, link: str) -> None:
    """Make the administrator, then one picture per page, theme and width."""
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(link)
    page.fill("input[type=email]", "operator@example.com")
    for field in page.locator("input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main button, .door button").first.click()
    page.wait_for_load_state()
    page.goto(f"{base}/dispatches")
    refused = page.locator("tr:has([data-state=errored]) a[href^='/dispatches/0']").first
    detail = base + str(refused.get_attribute("href"))
    for theme in ("light", "dark"):
        for name, url, size in (
            ("list", f"{base}/dispatches", WIDE),
            ("dispatch", detail, WIDE),
            ("sandbox", f"{base}/sandbox", WIDE),
            ("list-phone", f"{base}/dispatches", PHONE),
            ("dispatch-phone", detail, PHONE),
        ):
            picture(page, url, theme, size, TARGET / f"{name}-{theme}.png")
    context.close()


def picture(page: Page, url: str, theme: str, size: dict[str, int], path: Path) -> None:
    """Take one picture of what fits on the screen."""
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size(size)
    page.goto(url)
    page.wait_for_timeout(700)
    page.screenshot(path=path)


if __name__ == "__main__":
    main()
