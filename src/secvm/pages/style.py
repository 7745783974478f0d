"""How the lab's pages look: light and dark, on a phone, on a desk and on paper. One look for all of them."""

from __future__ import annotations

#: Colours of curves, in daylight and in the dark; pictures as PNG have those of daylight.
LIGHT = ("#1f5fbf", "#c4540a", "#1a7f5a", "#8a3ea8", "#8a6a00", "#b8225f", "#0b7a8f", "#56606e")
DARK = ("#7fb0ff", "#ffa568", "#6fd3a8", "#d59bf0", "#e3c04d", "#ff8fb5", "#62cfe2", "#b3bcc8")
#: What stands around the curves, in daylight.
INK, SOFT, EDGE = "#1d2129", "#5b6472", "#e2dfd8"

_COLOURS = (
    ":root{color-scheme:light dark;--ground:#fbfaf7;--card:#fff;"
    f"--ink:{INK};--soft:{SOFT};--edge:{EDGE};--c9:#b9b4a8;--good:#1a7f4b;--bad:#b3261e;--fair:#8a6a00;--rule:{SOFT};"
    + "".join(f"--c{i}:{colour};" for i, colour in enumerate(LIGHT))
    + "}@media (prefers-color-scheme:dark){:root{--ground:#14171c;--card:#1c2027;--ink:#e8e6e1;--soft:#a3abb8;"
    "--edge:#323843;--c9:#565d69;--good:#6fd39b;--bad:#ff8a80;--fair:#e3c04d;--rule:#a3abb8;"
    + "".join(f"--c{i}:{colour};" for i, colour in enumerate(DARK))
    + "}}\n"
)
_PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:64rem;margin:0 auto;padding:2rem 1.1rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:2.6rem 0 .5rem}
p{max-width:44rem;margin:.5rem 0}.lead{font-size:1.08rem;color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.6rem,1fr));gap:.7rem;margin:1.4rem 0}
.card{background:var(--card);border:1px solid var(--edge);border-radius:.7rem;padding:.8rem .9rem}
.card b{display:block;font-size:1.55rem;line-height:1.2;font-variant-numeric:tabular-nums;white-space:nowrap}
.card span{color:var(--soft);font-size:.86rem;line-height:1.35;display:block}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.9rem}
figure{margin:.8rem 0 0;background:var(--card);border:1px solid var(--edge);border-radius:.7rem;
padding:.8rem .8rem .6rem;max-width:44rem}.pair figure{max-width:none}
figcaption{font-weight:600;margin:0 0 .3rem .3rem}svg{display:block;width:100%;height:auto}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.4rem 0 .1rem .3rem;padding:0;
font-size:.86rem;color:var(--soft)}
.key{display:inline-block;width:1.5rem;margin-right:.4rem;vertical-align:.22em;border-top:3px solid}
.key.dashed{border-top-style:dashed}.key-rule-0{border-top:2px dotted var(--rule)}
.key-rule-1{border-top:2px dashed var(--c2)}
[class*=key-bar]{width:.8rem;height:.8rem;border:0;border-radius:.15rem;vertical-align:-.08em}

.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;margin:.6rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:0 0 .3rem}
th,td{text-align:left;padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--edge);vertical-align:top}
td.short{white-space:nowrap}thead th{color:var(--soft);font-weight:500}tbody th{font-weight:500}
details{margin:.4rem 0 0}summary{cursor:pointer;color:var(--soft);font-size:.9rem}
.checks{list-style:none;padding:0;margin:.6rem 0}.checks li{padding:.28rem 0}
.yes::before,.no::before{display:inline-block;width:1.5rem;font-weight:700}
.yes::before{content:"✓" / "yes: ";color:var(--good)}.no::before{content:"✗" / "no: ";color:var(--bad)}
footer{margin-top:3rem;color:var(--soft);font-size:.88rem}
@media print{body{background:#fff}figure,.card{break-inside:avoid}}
"""
#: Of curves that a page draws over its whole width: one drawing for a desk, one for a phone.
_PLOT = """
figure.plot{max-width:none;padding:1rem 1rem .8rem;margin-top:1.2rem}
.plot .title{font-weight:600;margin:0 0 .5rem .1rem;max-width:none}
.plot figcaption{font-weight:400;color:var(--soft);font-size:.94rem;margin:.6rem 0 0 .1rem;max-width:46rem}
.plot .small{display:none}
@media (max-width:40rem){.plot .small{display:block}.plot .large{display:none}
figure.plot{padding:.8rem .5rem .6rem}.plot .title,.plot figcaption{margin-left:.35rem}}
.said{display:grid;grid-template-columns:1fr 1fr 11rem;gap:.3rem 1.6rem;align-items:start;background:var(--card);
border:1px solid var(--edge);border-radius:.7rem;padding:.8rem 1rem;margin:.7rem 0}
.said p{margin:0;max-width:none}.said .who{display:block;color:var(--soft);font-size:.82rem;font-weight:400}
.said .verdict{font-weight:600}
.holds{color:var(--good)}.fails{color:var(--bad)}.partly{color:var(--fair)}.open{color:var(--soft)}
figure.plot+.scroll,figure.plot+p{margin-top:1.4rem}
@media (max-width:40rem){td{min-width:5.5rem}.said{grid-template-columns:1fr;gap:.6rem}}
@media print{figure,.said{break-inside:avoid}}
"""
#: How many levels to compare with are told apart by their dashes.
LEVELS = 3
_DRAWING = """
.tick,.axis,.label{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
.grid{stroke:var(--edge);stroke-width:1}.base{stroke:var(--soft);stroke-width:1}.faint{opacity:.6}
.whisker{stroke-width:7;stroke-linecap:round;opacity:.28}
.series{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
.series.dashed{stroke-dasharray:5 4}.rule{stroke:var(--rule);stroke-width:1.4;stroke-dasharray:2 4}
.rule-1{stroke:var(--c2);stroke-dasharray:8 4;stroke-width:1.8}
.level-1{stroke-dasharray:9 5}.level-2{stroke-dasharray:9 4 2 4}
.shade{fill:var(--soft);opacity:.13}.large text,.small text{font-size:13px}.label{fill:var(--ink)}
.sheet{fill:var(--card)}
""" + "".join(
    f".series-{i}{{stroke:var(--c{i})}}.band-{i}{{fill:var(--c{i});opacity:.15}}.bar-{i},.dot-{i}{{fill:var(--c{i})}}"
    f".name-{i}{{fill:var(--c{i});font-weight:600}}"
    for i in (*range(len(LIGHT)), 9)
)
_KEYS = "".join(
    f".key-{i}{{border-color:var(--c{i})}}.key-bar-{i}{{background:var(--c{i})}}" for i in (*range(len(LIGHT)), 9)
)
#: Nothing may be fetched, run or sent from such a page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Everything that goes into a page's head.
STYLE = _COLOURS + _PAGE + _PLOT + _DRAWING + _KEYS
#: What a drawing needs that stands alone.
DRAWING_STYLE = _COLOURS + _DRAWING
