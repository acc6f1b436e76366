# SPDX-License-Identifier: Apache-2.0
"""Draws resident memory over time as one SVG, without any library."""
import html

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 44, 48
COLOURS = ("#b3261e", "#1a73e8", "#188038", "#9334e6")


def _ticks(highest, count=6):
    """Returns round values from 0 to a little above the highest."""
    step = 1
    while highest / step > count:
        step *= 2 if str(step)[0] in "15" else 2.5
        step = int(step)
    return list(range(0, int(highest) + step, step))


class Axes:
    """Converts seconds and MiB to places on the page."""

    def __init__(self, seconds, mebibytes):
        self.x_ticks, self.y_ticks = _ticks(seconds), _ticks(mebibytes)
        self._x = (WIDTH - LEFT - RIGHT) / self.x_ticks[-1]
        self._y = (HEIGHT - TOP - BOTTOM) / self.y_ticks[-1]

    def x(self, seconds):
        return LEFT + seconds * self._x

    def y(self, mebibytes):
        return HEIGHT - BOTTOM - mebibytes * self._y


def _grid(axes):
    for tick in axes.y_ticks:
        y = axes.y(tick)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>'
    for tick in axes.x_ticks:
        yield f'<text x="{axes.x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick}</text>'
    yield f'<text x="{LEFT}" y="{TOP - 12}">RSS of one client, MiB</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">seconds</text>'


def _curve(axes, colour, points):
    places = " ".join(f"{axes.x(s):.1f},{axes.y(mib):.1f}" for s, mib in points)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{places}"/>'


def _legend(names):
    x = LEFT + 160
    for name, colour in zip(names, COLOURS):
        yield f'<line x1="{x}" x2="{x + 18}" y1="{TOP - 16}" y2="{TOP - 16}" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 23}" y="{TOP - 12}">{html.escape(name)}</text>'
        x += 36 + round(7.4 * len(name))


def svg(curves):
    """Draws `curves`, a dict of names to [(seconds, MiB)]."""
    axes = Axes(max(s for points in curves.values() for s, _ in points),
                max(mib for points in curves.values() for _, mib in points))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *_grid(axes)]
    lines += [_curve(axes, colour, points) for colour, points in zip(COLOURS, curves.values())]
    return "\n".join([*lines, *_legend(curves), "</svg>", ""])
