"""The colors and rules that all pages share: light and dark, on a phone and on paper."""

from __future__ import annotations

from zlib import crc32

PALETTE = tuple(f"var(--c{number})" for number in range(8))
"""Colors for the largest members of a set, the largest first. They differ for people with color-blindness, too."""
OTHERS = "var(--other)"
"""The color of all other members."""

_LIGHT = (
    "--page:#fff;--ink:#1c2430;--quiet:#566375;--line:#d9dfe7;--room:#e6eaf0;--card:#f6f8fa;--accent:#2f6fb7;"
    "--good:#1d7f4e;--bad:#b3332c;--tint:#2f6fb722;--other:#9aa4b2;"
    "--c0:#4a86cf;--c1:#e39a3b;--c2:#3d9f7c;--c3:#c65b8c;--c4:#8a72cf;--c5:#2fa6bd;--c6:#b08d3c;--c7:#d3705f"
)
_DARK = (
    "--page:#11161c;--ink:#e4e9ef;--quiet:#9ba8b7;--line:#2d3743;--room:#27303b;--card:#182028;--accent:#74aceb;"
    "--good:#5cc08d;--bad:#f0857d;--tint:#74aceb26;--other:#6d7988;"
    "--c0:#5b94dc;--c1:#d9933c;--c2:#45a783;--c3:#cf6a99;--c4:#9781da;--c5:#3cabc1;--c6:#b59347;--c7:#d87b6b"
)
STYLE = (
    f":root{{color-scheme:light dark;{_LIGHT}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    """
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;margin:0 auto;max-width:82rem;
padding:1.2rem 1.2rem 3rem;color:var(--ink);background:var(--page);-webkit-text-size-adjust:100%;overflow-wrap:anywhere}
h1{font-size:1.45rem;line-height:1.2;margin:0 0 .2rem} h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
h3{font-size:.95rem;margin:1.2rem 0 .4rem} p{margin:.4rem 0} code{font-size:.92em}
.quiet,.why{color:var(--quiet)} .why{font-size:12px;margin:.3rem 0 0} li{margin:.3rem 0}
.figures{display:flex;flex-wrap:wrap;gap:.8rem 2.2rem;margin:1rem 0}
.figures b{display:block;font-size:1.5rem;font-weight:600;line-height:1.2;font-variant-numeric:tabular-nums}
.node{border-top:1px solid var(--line);padding:.6rem 0}
.head{display:flex;justify-content:space-between;gap:0 1rem;flex-wrap:wrap}
.bar{display:grid;grid-template-columns:4.2rem 1fr 11.5rem;align-items:center;gap:.6rem;margin-top:.25rem}
.bar>:first-child{white-space:nowrap} .bar>:last-child{font-size:12px}
.room{display:flex;height:1.25rem;background:var(--room);border-radius:3px;overflow:hidden}
.room i{border-right:1px solid var(--page);overflow:hidden;white-space:nowrap;min-width:1px;padding-left:3px;
color:#14202e;font-style:normal;font-size:11px;line-height:1.25rem}
.room i:empty{padding:0}
.scale{height:1.1rem;background:var(--tint);border-radius:3px;max-width:40rem}
.scale i{display:block;height:100%;background:var(--accent);border-radius:3px}
@media (max-width:40rem){body{padding:.8rem .8rem 2rem}.bar{grid-template-columns:3.4rem 1fr;gap:.2rem .5rem}
.bar>:last-child{grid-column:2}}
@media print{@page{margin:12mm}body{max-width:none;padding:0;font-size:11px;-webkit-print-color-adjust:exact;
print-color-adjust:exact}.node,tr,figure,li{break-inside:avoid}h2,h3{break-after:avoid}}
"""
)


def color_of_name(name: str) -> str:
    """Return the color of a workload, the same in every bar and in every run. Dark texts can be read on it."""
    return f"hsl({crc32(name.encode()) % 360} 62% 76%)"
