/* The look of the page of results: by day and by night, on paper, on a phone. */
#ifndef RUNNEL_REPORT_STYLE_H
#define RUNNEL_REPORT_STYLE_H

static const char report_style[] =
    ":root{--page:#fff;--text:#1c2733;--faint:#5b6875;--line:#d9dfe5;--accent:#1769aa;"
    "--good:#e7f3ec}\n"
    "body{margin:0 auto;max-width:1240px;padding:16px 20px 60px;background:var(--page);"
    "color:var(--text);font:15px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.5em;margin:.3em 0}h2{font-size:1.2em;margin:1.8em 0 .4em;"
    "border-bottom:1px solid var(--line)}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:.6em 0}"
    "dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}\n"
    "code,pre{font:13px/1.4 ui-monospace,monospace}pre{overflow:auto;padding:8px;"
    "border:1px solid var(--line)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "font-size:14px}\n"
    "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid var(--line);"
    "white-space:nowrap}th{font-weight:600;cursor:pointer}\n"
    "td.text,th.text{text-align:left}td.name{white-space:normal;text-align:left;min-width:9em}"
    "tr.best td{background:var(--good)}\n"
    ".note{color:var(--faint);font-size:13px;max-width:80em}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));"
    "gap:12px 20px;align-items:start}figure{margin:0}.course{grid-column:1/-1;max-width:900px}\n"
    ".chart{width:100%;height:auto;display:block}.sample{width:28px;height:8px;flex:none}\n"
    "svg text{fill:var(--text);font:12px system-ui,sans-serif}svg .title{font-weight:600;"
    "font-size:14px}svg .side{fill:var(--text)}\n"
    ".grid{stroke:var(--line);fill:none}.curve,.baseline,.line{fill:none;stroke-width:1.6}"
    ".curve:hover{stroke-width:4}.band{fill-opacity:.13;stroke:none}\n"
    ".seed{fill-opacity:.65}.mean{stroke-width:3}.field{fill:var(--accent)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 16px;margin:4px 0 10px;padding:0;list-style:none;"
    "font-size:13px}.legend li{display:flex;gap:6px;align-items:center}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#1b222a;--text:#e4e9ee;--faint:#9aa7b4;"
    "--line:#303a45;--accent:#6cb6f0;--good:#20362b}}\n"
    "@media print{body{max-width:none}.charts{display:block}figure{break-inside:avoid}}\n";

/* A click on a column's head sorts by it, the other way round at the second. */
static const char report_script[] =
    "document.querySelectorAll('table.sorted').forEach(t=>t.tHead.addEventListener('click',e=>{"
    "const n=e.target.cellIndex,b=t.tBodies[0];if(n===undefined)return;"
    "const d=e.target.dataset.d=e.target.dataset.d==='1'?'-1':'1';"
    "const v=r=>{const s=r.cells[n].dataset.v;return s===undefined?r.cells[n].textContent:s===''?"
    "Infinity*d:+s};"
    "[...b.rows].sort((p,q)=>{const a=v(p),c=v(q),x=parseFloat(a),y=parseFloat(c);"
    "return d*(isNaN(x)||isNaN(y)?String(a).localeCompare(c):x-y)||p.dataset.n-q.dataset.n})"
    ".forEach(r=>b.append(r))}));\n";

#endif
