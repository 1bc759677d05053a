#!/usr/bin/env python3
"""Fills the book's tables and plots from results of the lab, so that nobody types one: docs/measured.py DIR [CHAPTER…]

  DIR/host/NAME.json       DIR/host/report-NAME/index.html        commensal lab NAME --json … --report …
  DIR/simulated/NAME.json  DIR/simulated/report-NAME/index.html   the same with --cpus
  DIR/validate.txt         DIR/forecast/index.html                commensal lab validate > …, commensal lab forecast

What stands between a request and `<!-- end of measured -->` is made anew:
  <!-- measured counters -->                                      where it was measured, and the document's claims
  <!-- measured counters; owner_add_ns; threads=1; no in -->      a metric: each arm, in the rows with these parameters
  <!-- measured counters; plot host; title -->                    a plot of a page, by its title
  <!-- measured forecast; table simulated; heading -->            a table of a page, by its first heading
  <!-- measured validate; line -->                                what `lab validate` printed below this line
"""
import html, json, math, os, pathlib, re, sys, time

DOCS, SIDES, NONE = pathlib.Path(__file__).parent, ("host", "simulated"), "–"
WORDS = dict(re.findall(r'\("(\w+)", "(.+)"\)', (DOCS / "../lab/src/parameters.rs").read_text().split("];")[0]))
NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

def short(value):
    places = min(max(2 - math.floor(math.log10(abs(value))), 0), 9) if value else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

def for_people(value, unit):
    if unit in NS:
        ns = value * NS[unit]
        scale, unit = next((it for it in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] if ns >= it[0]), (1, "ns"))
        return f"{short(ns / scale)}\u00a0{unit}"
    number = f"{short(value / 1e6)}\u00a0million" if value >= 1e6 else f"{value:,.0f}" if value >= 1e3 else short(value)
    return number if unit in ("1", "") else f"{number}\u00a0{unit}"

def markdown(rows):
    text = lambda cell: cell.replace("<", "&lt;").replace("|", "\\|")
    head, *rest = (f"| {' | '.join(map(text, row))} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest])

def result(name, side):
    path = DIR / side / f"{name}.json"
    it = json.loads(path.read_text())
    if (it["experiment"], it["machine"]["kind"], it["interrupted"]) != (name, side, False):
        sys.exit(f"{path} is no whole result of {name}, {side}")
    return it | {"day": time.strftime("%F", time.gmtime(path.stat().st_mtime))}

def page(name, side):
    """Of a report: its tables by first headings, its plots by titles, its colours by day, and the machine."""
    text = (DIR / ("forecast" if name == "forecast" else f"{side}/report-{name}") / "index.html").read_text()
    def inside(tag, text):
        return [html.unescape(it.strip()) for it in re.findall(f"(?s)<{tag}(?: [^>]*)?>(.*?)</{tag}>", text)]
    tables, plots = {}, {}
    for rows in ([inside("t[hd]", row) for row in it.split("</tr>")[:-1]] for it in text.split("<table>")[1:]):
        tables.setdefault(rows[0][0], [row for row in rows if row])
    for it in re.findall("(?s)<figure.*?</figure>", text):
        title = inside("figcaption", it) + ([] if 'class="wide"' in it else inside("text", it)[:1])
        plots.setdefault(": ".join(title), re.search("(?s)<svg.*</svg>", it)[0])
    colours = dict(re.findall(r"--(\w+): (.*?);", text.split(":root {")[1].split("}")[0]))
    return tables, plots, colours, inside("pre", text)[-1].splitlines()[-1]

def of_claims(name):
    words = {"yes": "holds", "NO": "**does not hold**"}
    judged = lambda found, word: NONE if found == NONE else words.get(word, word)
    rows = [["claim", "document", "measured here", "holds here", "simulated at N", "holds there"]]
    tables = page(name, "simulated")[0]
    there, predicted = ({row[0]: row for row in tables.get(it, [])} for it in ("claim", "predicted"))
    for claim, document, here, _, holds in page(name, "host")[0]["claim"][1:]:
        _, _, _, simulated, agrees = there.get(claim, [NONE] * 5)
        *_, band, _, told = predicted.get(claim, [NONE] * 3)
        simulated += f"; band {band}" if NONE not in (simulated, band) else ""
        agrees = told if agrees == "cannot be told" and told != NONE else agrees
        rows.append([claim, document, here, judged(here, holds), simulated, judged(simulated, agrees)])
    places = ""
    for side in SIDES:
        it, where = result(name, side), page(name, side)[3]
        command = re.sub(r"^\S+ | --(json|report) \S+", "", it["command"])
        places += f"- {where}: `commensal {command}`, seed {it['seed']}, commit {it['commit']}; {it['day']}.\n"
    return f"{places}\n{markdown(rows)}"

def row_name(parameters, wanted):
    def words(name, value):
        name = WORDS.get(name, name)
        if isinstance(value, bool):
            return name if value else f"not {name}"
        name = name.removesuffix("s") if value == 1 else name
        return f"{name} {value}" if isinstance(value, str) else f"{value} {name}"
    return ", ".join(words(name, value) for name, value in sorted(parameters.items()) if name not in wanted)

def compared(it, unit, notes):
    said, (low, high) = it["verdict"], map(short, it["ci95"])
    if said == "no difference shown":
        said = f"{said}; {short(100 * it['mde'])} % would have been" if it["mde"] else "too few blocks for a verdict"
    elif unit not in NS:
        said = {"faster": "less", "slower": "more"}.get(said, said)
    if it["document"]:
        figure, value = it["document"]["figure"], short(it["document"]["value"])
        notes[f"The document has {value} × for {it['candidate']}: {figure}."] = True
    interval = "" if low == high else f" ({low} to {high})"
    return f" · {short(it['ratio'])} × {it['baseline']}{interval}, {said}"

def of_metric(name, metric, conditions):
    wanted = dict((it[3:], "null") if it.startswith("no ") else it.split("=") for it in conditions)
    rows, notes = {}, {}
    for at, outcome in enumerate(result(name, side) for side in SIDES):
        held = {(it["candidate"], str(it["parameters"])): it for it in outcome["comparisons"] if it["metric"] == metric}
        for arm in (arm for arm in outcome["arms"] if metric in arm["metrics"]):
            parameters, figure = arm["parameters"], arm["metrics"][metric]
            if any(json.dumps(parameters.get(it)).strip('"') != value for it, value in wanted.items()):
                continue
            it, cell = held.get((arm["name"], str(parameters))), for_people(figure["median"], figure["unit"])
            if not arm["name"].endswith(" again"):
                cell += compared(it, figure["unit"], notes) if it else ""
                rows.setdefault(row_name(parameters, wanted), {}).setdefault(arm["name"], [NONE, NONE])[at] = cell
            elif it and it["verdict"] != "no difference shown":
                ratio = short(it["ratio"])
                notes[f"The control differs from {it['baseline']} by {ratio} ×: the machine was not at rest."] = True
    lines = [[row, arm, *cells] for row, arms in rows.items() for arm, cells in arms.items()]
    return "\n\n".join([markdown([["row", "arm", "measured here", "simulated"], *lines]), *notes])

def plot(name, side, title, chapter):
    _, plots, colours, _ = page(name, side)
    svg = re.sub(r"var\(--(\w+)\)", lambda it: colours[it[1]], plots[title])
    *_, width, height = re.search('viewBox="(.*?)"', svg)[1].split()
    svg = svg.replace("<svg", f'<svg width="{width}" height="{height}" style="background: #ffffff"', 1)
    path = DOCS / "experiments" / ("-".join([name, side, *re.findall("[a-z0-9]+", title.lower())]) + ".svg")
    path.write_text(svg + "\n")
    return f"![{title}]({os.path.relpath(path, chapter.parent)})"

def made(request, chapter):
    name, *words = (it.strip() for it in request.split(";"))
    kind, _, side = words[0].partition(" ") if words else ("", "", "")
    if name == "validate":
        printed = (DIR / "validate.txt").read_text().split(words[0])[1].partition("\n")[2]
        return "```text\n" + printed.strip("\n").split("\n\n")[0] + "\n```"
    if side in SIDES:
        return plot(name, side, words[1], chapter) if kind == "plot" else markdown(page(name, side)[0][words[1]])
    return of_metric(name, words[0], words[1:]) if words else of_claims(name)

DIR = pathlib.Path(sys.argv[1])
CHAPTERS = [*map(pathlib.Path, sys.argv[2:])] or [*DOCS.glob("experiments/*.md"), DOCS / "simulated.md"]
BLOCK = re.compile(r"(<!-- measured ([^\n]*?) -->\n).*?(<!-- end of measured -->)", re.S)
for chapter in CHAPTERS:
    filled = lambda it: f"{it[1]}\n{made(it[2], chapter)}\n\n{it[3]}"
    chapter.write_text(BLOCK.sub(filled, chapter.read_text()))
