"""Format of durations."""

import math


def format_secs(secs: float | None) -> str:
    """Returns a duration.

    Example:
        >>> [format_secs(value) for value in (None, 9.4, 75, 3_725, 200_000)]
        ['', '9 s', '1:15', '1:02:05', '2 d 7:33:20']
    """
    if secs is None or not math.isfinite(secs):
        return ""
    whole = max(int(secs), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if not hours and not days:
        return f"{minutes}:{seconds:02d}"
    clock = f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{days} d {clock}" if days else clock
