"""How the page of a run looks, in light and in dark."""

STYLE = """
:root{color-scheme:light dark;--paper:#fbfbfa;--card:#fff;--ink:#1f2328;--soft:#616a75;
--line:#e3e5e8;--a:#1f6feb;--b:#c2410c;--good:#1a7f37;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e6e8eb;
--soft:#9aa4af;--line:#30363d;--a:#6ea8fe;--b:#f59e5b;--good:#57c27a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0;overflow-wrap:anywhere}h2{font-size:18px;margin:36px 0 12px}
.state{margin:6px 0 2px;font-weight:600;white-space:pre-wrap;overflow-wrap:anywhere}

.running{color:var(--a)}.ended{color:var(--good)}.failed{color:var(--bad)}
.soft,.ends{color:var(--soft);font-size:13px;margin:2px 0}
dl{display:grid;gap:12px;margin:22px 0;
grid-template-columns:repeat(auto-fill,minmax(min(230px,45%),1fr))}
dl div,figure{background:var(--card);border:1px solid var(--line);border-radius:10px}
dl div{padding:12px 14px}dt{color:var(--soft);font-size:13px}
dd{margin:2px 0 0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px}
figure{margin:0;padding:14px 16px 10px}figcaption{font-weight:600;margin-bottom:6px}
figcaption span{font-weight:400;font-size:13px;margin-left:14px}
figcaption span::before{content:"";display:inline-block;width:14px;height:3px;margin-right:6px;
vertical-align:middle;background:var(--a)}figcaption .k1::before{background:var(--b)}
svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font-size:12px}
.grid{stroke:var(--line)}polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.s0{stroke:var(--a)}.s1{stroke:var(--b)}.d0{fill:var(--a)}.d1{fill:var(--b)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:500;font-size:13px}
td.t,th.t{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:6.5em}
.soft.over{margin-bottom:12px}summary{cursor:pointer;color:var(--a)}.none{color:var(--soft)}
"""
