"""Email addresses in the form that goes on the wire."""


def ascii_address(address: str) -> str:
    """Return an address with its domain in punycode; the local part stays as it is."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.encode('idna').decode('ascii')}" if not domain.isascii() else address
