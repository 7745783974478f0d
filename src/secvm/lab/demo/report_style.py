"""How the demonstration's page looks: light and dark, on a phone, on a desk and on paper."""

from __future__ import annotations

_RULES = """
:root{color-scheme:light dark;--ground:#fbfaf7;--card:#fff;--ink:#1d2129;--soft:#5b6472;--edge:#e2dfd8;
--c0:#1f5fbf;--c1:#c4540a;--c2:#1a7f5a;--c3:#8a3ea8;--c9:#b9b4a8;--good:#1a7f4b;--bad:#b3261e;--rule:#5b6472}
@media (prefers-color-scheme:dark){:root{--ground:#14171c;--card:#1c2027;--ink:#e8e6e1;--soft:#a3abb8;--edge:#323843;
--c0:#7fb0ff;--c1:#ffa568;--c2:#6fd3a8;--c3:#d59bf0;--c9:#565d69;--good:#6fd39b;--bad:#ff8a80;--rule:#a3abb8}}
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
.tick,.axis{font:12px system-ui,sans-serif;fill:var(--soft)}.grid{stroke:var(--edge);stroke-width:1}
.series{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
.series.dashed{stroke-dasharray:5 4}.rule{stroke:var(--rule);stroke-width:1.4;stroke-dasharray:2 4}
.rule-1{stroke:var(--c2);stroke-dasharray:8 4;stroke-width:1.8}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.4rem 0 .1rem .3rem;padding:0;
font-size:.86rem;color:var(--soft)}
.key{display:inline-block;width:1.5rem;margin-right:.4rem;vertical-align:.22em;border-top:3px solid}
.key.dashed{border-top-style:dashed}.key-rule-0{border-top:2px dotted var(--rule)}
.key-rule-1{border-top:2px dashed var(--c2)}
[class*=key-bar]{width:.8rem;height:.8rem;border:0;border-radius:.15rem;vertical-align:-.08em}

.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;margin:.6rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--edge);vertical-align:top}
thead th{color:var(--soft);font-weight:500}tbody th{font-weight:500}
details{margin:.4rem 0 0}summary{cursor:pointer;color:var(--soft);font-size:.9rem}
.checks{list-style:none;padding:0;margin:.6rem 0}.checks li{padding:.28rem 0}
.yes::before,.no::before{display:inline-block;width:1.5rem;font-weight:700}
.yes::before{content:"✓" / "yes: ";color:var(--good)}.no::before{content:"✗" / "no: ";color:var(--bad)}
footer{margin-top:3rem;color:var(--soft);font-size:.88rem}
@media print{body{background:#fff}figure,.card{break-inside:avoid}}
"""
_COLOURS = "".join(
    f".series-{i}{{stroke:var(--c{i})}}.band-{i}{{fill:var(--c{i});opacity:.15}}.bar-{i},.dot-{i}{{fill:var(--c{i})}}"
    f".key-{i}{{border-color:var(--c{i})}}.key-bar-{i}{{background:var(--c{i})}}"
    for i in (0, 1, 2, 3, 9)
)
#: Nothing may be fetched, run or sent from this page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: Everything that goes into the page's head.
STYLE = _RULES + _COLOURS
