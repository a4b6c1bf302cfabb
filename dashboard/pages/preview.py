"""What a message says, made safe to look at: HTML in a frame that can do nothing.

Three layers, each enough by itself: the frame's sandbox without any permission, the answer's own
policy (no script, no form, no address of anybody), and nh3, which keeps harmless elements only.
Remote images are never loaded, so that looking at a message is no "opened"; links show where they
lead and lead nowhere.
"""

import base64
import re
import uuid
from collections.abc import Mapping
from html import escape, unescape

import nh3
from flask import Blueprint, Response, render_template
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.access.scope import OutOfScope, current_access
from dashboard.database import db
from dashboard.dispatch.files.attachments import AttachmentError, read
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Dispatch
from dashboard.settings import current

blueprint = Blueprint("preview", __name__)

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'; sandbox"
)
INLINE_BYTES = 2_000_000
HTML_CHARACTERS = 2_000_000
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TAGS = {
    *("a", "abbr", "address", "b", "big", "blockquote", "body", "br", "caption", "center"),
    *("cite", "code", "col", "colgroup", "dd", "del", "div", "dl", "dt", "em"),
    *("figcaption", "figure", "font", "footer", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("header", "hr", "i", "img", "ins", "kbd", "li", "main", "ol", "p", "pre", "q", "s"),
    *("samp", "section", "small", "span", "strike", "strong", "sub", "sup", "table"),
    *("tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var"),
}
_ATTRIBUTES = {
    "*": {
        "style",
        "align",
        "valign",
        "width",
        "height",
        "bgcolor",
        "dir",
        "lang",
        "title",
        "color",
    },
    "a": {"href"},
    "img": {"src", "alt"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "table": {"border", "cellpadding", "cellspacing"},
    "font": {"face", "size"},
}
_STYLES = {
    *("background-color", "border", "border-bottom", "border-collapse", "border-color"),
    *("border-left", "border-radius", "border-right", "border-spacing", "border-style"),
    *("border-top", "border-width", "color", "direction", "display", "font", "font-family"),
    *("font-size", "font-style", "font-weight", "height", "letter-spacing", "line-height"),
    *("margin", "margin-bottom", "margin-left", "margin-right", "margin-top", "max-width"),
    *("min-width", "padding", "padding-bottom", "padding-left", "padding-right", "padding-top"),
    *("text-align", "text-decoration", "text-transform", "vertical-align", "white-space", "width"),
    *("word-break",),
}
_ANCHOR = re.compile(r'<a href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


def safe_html(html: str, images: Mapping[str, str] | None = None) -> str:
    """Return the harmless part of a message's HTML; of links, the words and where they lead.

    Args:
        images: `data:` addresses by content id, for the pictures that came with the message.
    """
    inline = images or {}

    def keep(tag: str, attribute: str, value: str) -> str | None:
        if (tag, attribute) != ("img", "src"):
            return value
        return inline.get(value.removeprefix("cid:")) if value.startswith("cid:") else None

    cleaned = nh3.clean(
        html[:HTML_CHARACTERS],
        tags=_TAGS,
        clean_content_tags={"script", "style", "title", "template", "svg", "math"},
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=keep,
        filter_style_properties=_STYLES,
        url_schemes={"http", "https", "mailto", "tel", "cid", "data"},
        link_rel=None,
    )
    return _ANCHOR.sub(_shown_link, cleaned)


def _shown_link(match: re.Match[str]) -> str:
    address, words = unescape(match[1]), match[2]
    if not address or address.startswith(("cid:", "data:")):
        return f"<u>{words}</u>"
    return f'<u title="{escape(address)}">{words}</u> <small>[{escape(address[:300])}]</small>'


def data_address(content_type: str, content: bytes) -> str:
    """Return a picture as an address that holds it, or nothing for what is no small picture."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in IMAGE_TYPES or len(content) > INLINE_BYTES:
        return ""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def framed(html: str, images: Mapping[str, str] | None = None) -> Response:
    """Return the answer for a frame: the harmless HTML under a policy that allows nothing."""
    body = render_template("sandbox/framed.html", content=safe_html(html, images))
    response = Response(body)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.get("/dispatches/<uuid:dispatch_id>/preview")
@requires(Permission.CONTENT_READ)
def html(dispatch_id: uuid.UUID) -> Response:
    """Show the HTML of an email in a frame."""
    row = db.session.scalars(
        select(Dispatch).options(joinedload(Dispatch.email)).where(Dispatch.id == dispatch_id)
    ).first()
    if row is None:
        raise OutOfScope
    current_access().require(Permission.CONTENT_READ, row.source_id)
    return framed(row.email.html if row.email else "", _inline_images(row))


def _inline_images(row: Dispatch) -> dict[str, str]:
    """Return the pictures of a dispatch by content id; what cannot be read is left out."""
    if not row.file_count:
        return {}
    query = (
        select(DispatchAttachment.content_id, Attachment)
        .join(Attachment, Attachment.id == DispatchAttachment.attachment_id)
        .where(DispatchAttachment.dispatch_id == row.id, DispatchAttachment.inline)
    )
    found = {content_id: _picture(file) for content_id, file in db.session.execute(query)}
    return {content_id.strip("<>"): address for content_id, address in found.items() if address}


def _picture(attachment: Attachment) -> str:
    if attachment.size > INLINE_BYTES or attachment.deleted_at is not None:
        return ""
    try:
        return data_address(attachment.content_type, read(attachment, current()))
    except AttachmentError:
        return ""
