# SPDX-License-Identifier: Apache-2.0
"""Draws a terminal's screen as SVG: tmux capture-pane -ep | screen.py COLUMNS >screen.svg

Knows what flmem's screen uses: bold, reverse and the eight colours.
"""
import html
import re
import sys

WIDTH, HEIGHT, MARGIN = 8.43, 18, 12  # of a cell at 14 px, and around all
PAPER, INK = "#1e1e1e", "#d4d4d4"
COLOURS = ("#1e1e1e", "#f14c4c", "#23d18b", "#e5e510", "#3b8eea", "#d670d6", "#29b8db", "#e5e5e5")
STYLE = re.compile(r"\x1b\[([\d;]*)m|\x1b\([A-Z0-9]|[\x0e\x0f]")


class Pen:
    def __init__(self):
        self.clear()

    def clear(self):
        self.bold, self.reverse, self.colour = False, False, None

    def apply(self, codes):
        for code in (int(c) for c in (codes or "0").split(";")):
            if code == 0:
                self.clear()
            elif code in (1, 7):
                self.bold, self.reverse = self.bold or code == 1, self.reverse or code == 7
            elif 30 <= code <= 37:
                self.colour = COLOURS[code - 30]
            elif code == 39:
                self.colour = None

    def style(self):
        ink = self.colour or INK
        return (PAPER if self.reverse else ink), (ink if self.reverse else None), self.bold


def runs(line):
    """(column, text, style) of equally drawn cells."""
    pen, column, found, last = Pen(), 0, [], 0
    for match in [*STYLE.finditer(line), None]:
        text = line[last:match.start() if match else len(line)]
        if text:
            found.append((column, text, pen.style()))
            column += len(text)
        if match:
            last = match.end()
            if match.group(0).startswith("\x1b["):
                pen.apply(match.group(1))
    return found


def draw(row, column, text, style):
    ink, paper, bold = style
    x, y, width = MARGIN + column * WIDTH, MARGIN + row * HEIGHT, len(text) * WIDTH
    if paper:
        yield (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" '
               f'fill="{paper}"/>')
    # Word by word: not every viewer keeps spaces, or has a font whose cells are as wide.
    for word in re.finditer(r"\S+", text):
        yield (f'<text x="{x + word.start() * WIDTH:.1f}" y="{y + 14}" '
               f'textLength="{len(word.group()) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" '
               f'fill="{ink}"' + (' font-weight="bold"' if bold else "")
               + f">{html.escape(word.group())}</text>")


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    width, height = int(sys.argv[1]) * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
          f'width="{width:.0f}" height="{height}" font-size="14" '
          'font-family="\'DejaVu Sans Mono\', Menlo, Consolas, monospace">')
    print("<!-- SPDX-License-Identifier: Apache-2.0; made by docs/images/make -->")
    print(f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>')
    for row, line in enumerate(lines):
        for run in runs(line):
            for element in draw(row, *run):
                print(element)
    print("</svg>")


main()
