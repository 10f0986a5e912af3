"""How a report's page looks, in light and in dark."""

STYLE = """
:root { --bg: #fff; --text: #1c2430; --faint: #5f6875; --grid: #dfe3e8; --card: #f6f7f9;
  --kept: #15803d; --other: #a3acb9; --failed: #dc2626; --slow: #ea8a0c; --odd: #7c5cd6; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171c; --text: #e4e7ec; --faint: #9aa3b0;
  --grid: #2c323b; --card: #1c2027; --kept: #4ade80; --other: #69727f; --failed: #f87171;
  --slow: #fbbf24; --odd: #a78bfa; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 10px; }
h3 { font-size: 14px; margin: 0 0 6px; } h3:not(:first-child) { margin-top: 18px; }
.sub { color: var(--faint); margin: 0 0 18px; }
.points { display: grid; grid-template-columns: max-content 1fr; gap: 8px 18px; margin: 0;
  padding: 16px 18px; background: var(--card); border-radius: 8px; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 22px 0 0; } svg { width: 100%; height: auto; display: block; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 14px; }
section { background: var(--card); border-radius: 8px; padding: 14px 16px; min-width: 0; }
section p { margin: 0; } ul { margin: 0; padding-left: 18px; } li { overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--faint); font-weight: 600; white-space: nowrap; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
td { overflow-wrap: anywhere; } section td, section th { font-size: 13px; padding: 2px 8px 2px 0; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { margin-top: 34px; }
summary { font-size: 18px; font-weight: 600; cursor: pointer; margin-bottom: 10px; }
svg text { font-family: inherit; paint-order: stroke; stroke: var(--bg); stroke-width: 3px; }
svg path { fill: none; } svg .round { stroke-linecap: round; }
svg .spot { stroke: var(--bg); stroke-width: 1; }
.f-text { fill: var(--text); } .f-faint { fill: var(--faint); }
.f-kept { fill: var(--kept); } .f-other { fill: var(--other); } .f-failed { fill: var(--failed); }
.f-slow { fill: var(--slow); } .f-odd { fill: var(--odd); }
.s-grid { stroke: var(--grid); } .s-faint { stroke: var(--faint); }
.s-best, .s-kept { stroke: var(--kept); } .s-other { stroke: var(--other); }
.s-failed { stroke: var(--failed); } .s-slow { stroke: var(--slow); } .s-odd { stroke: var(--odd); }
@media (max-width: 640px) { .points { grid-template-columns: 1fr; gap: 2px; }
  dd { margin-bottom: 8px; } }
"""
