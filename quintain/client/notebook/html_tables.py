"""Tables as HTML, for notebooks. Whatever a user has named is shown as text."""

import html
import json
from collections.abc import Sequence
from typing import Final

_MAX_CHARACTERS: Final = 200


def to_html(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    caption: str = "",
    max_rows: int | None = None,
) -> str:
    """Returns a table.

    Args:
        columns: Names of the columns.
        rows: A value for each of them.
        caption: Text above it.
        max_rows: Rows that are shown, with a line that says how many there are. All if None.

    Example:
        >>> to_html(["a"], [["<b>"]]).partition("<tbody>")[2]
        '<tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    shown = rows if max_rows is None else rows[:max_rows]
    head = "".join(f"<th>{_to_text(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_to_text(value)}</td>' for value in row)}</tr>" for row in shown
    )
    above = f"<caption>{_to_text(caption)}</caption>" if caption else ""
    table = f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table if len(shown) == len(rows) else f"{table}<p>{len(shown)} of {len(rows)}.</p>"


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, dict):
        text = ", ".join(f"{name}={part}" for name, part in value.items())
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, default=str)
    return html.escape(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
