"""The picture of docs/benchmarks.md and README.md: how many times as fast as PyTorch a training step of each network is.

It is an SVG for light and dark pages, made of the same raw results as the tables.
"""
from report import median

ROW, BAR, TOP, LEFT, UNIT, MOST = 26, 9, 44, 160, 64, 9  # pixels; MOST is where the scale ends
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.quiet { fill: #59636e; }
.f32 { fill: #3b76b5; }
.bf16 { fill: #d9822b; }
line { stroke: #d1d9e0; }
.same { stroke: #59636e; stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .quiet { fill: #9198a1; }
  .f32 { fill: #5b9bd9; }
  .bf16 { fill: #e8a154; }
  line { stroke: #3d444d; }
  .same { stroke: #9198a1; }
}
"""


def ratio(row):
    """Next to the faster of PyTorch's modes."""
    rate = {side: median(r["images_per_s"] for r in row[side]) for side in ("yoke", "eager", "compile") if side in row}
    return rate["yoke"] / max(rate[side] for side in rate if side != "yoke")


def ratios(results):
    """{network: {"f32": ratio, "bf16": ratio}}, of one rank with the most threads that were measured."""
    found = {}
    for row in (row for result in results for row in result["rows"] if row["ranks"] == 1):
        mode = "f32" if row["amp"] == "off" else row["amp"]
        known = found.setdefault(row["arch"], {})
        if row["threads"] >= known.get(mode, (0, 0))[0]:
            known[mode] = (row["threads"], ratio(row))
    return {arch: {mode: value for mode, (_, value) in modes.items()} for arch, modes in found.items()}


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{words}</text>'


def line(x, bottom, kind=""):
    return f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"{kind}/>'


def network(y, arch, modes):
    """Its name, and a bar for each mode."""
    parts = [text(LEFT - 8, y + BAR + 4, arch, ' text-anchor="end"')]
    for place, mode in enumerate(("f32", "bf16")):
        top, width = y + place * (BAR + 1), modes[mode] * UNIT
        parts.append(f'<rect class="{mode}" x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="1.5"/>')
        parts.append(text(LEFT + width + 4, top + BAR - 1, f"{modes[mode]:.1f}", ' class="quiet" style="font-size: 9px"'))
    return parts


def draw(results):
    found = sorted(ratios(results).items(), key=lambda item: -item[1]["f32"])
    bottom, width = TOP + ROW * len(found), LEFT + UNIT * MOST
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 4}" width="{width}" height="{bottom + 4}" '
             'role="img" aria-label="How many times as fast as PyTorch a training step is">', f"<style>{STYLE}</style>"]
    for times in range(1, MOST):
        x = LEFT + times * UNIT
        parts += [line(x, bottom, ' class="same"' if times == 1 else ""),
                  text(x, TOP - 14, "PyTorch" if times == 1 else f"{times} times", ' class="quiet" text-anchor="middle"')]
    for place, mode in enumerate(("f32", "bf16")):
        x = 8 + 62 * place
        parts += [f'<rect class="{mode}" x="{x}" y="{TOP - 24}" width="{BAR}" height="{BAR}" rx="1.5"/>',
                  text(x + BAR + 5, TOP - 15, mode)]
    for place, (arch, modes) in enumerate(found):
        parts += network(TOP + ROW * place + 3, arch, modes)
    return "\n".join([*parts, "</svg>", ""])
