#!/usr/bin/env python3
"""Fills the book's tables and plots with results of the lab, so no figure is typed: docs/measured.py DIR [CHAPTER…]

  DIR/host/NAME.json       DIR/host/report-NAME/index.html        commensal lab NAME --json … --report …
  DIR/simulated/NAME.json  DIR/simulated/report-NAME/index.html   the same with --cpus
  DIR/validate.txt         DIR/forecast/index.html                commensal lab validate > …, commensal lab forecast

The text between a request and `<!-- end of measured -->` is replaced:
  <!-- measured counters -->                                      where it was measured, and the document's claims
  <!-- measured counters; owner_add_ns; threads=1; no in -->      a metric: each arm, in the rows with these parameters
  <!-- measured counters; plot host; title -->                    a plot of a page, by its title
  <!-- measured forecast; table simulated; heading -->            a table of a page, by its first heading
  <!-- measured validate; line -->                                the table that `lab validate` printed below this line
A request for a table may end in `; only A|B`: the rows that have one of these words as a cell.
"""
import html, json, math, os, pathlib, re, sys, textwrap, time

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

def markdown(head, rows, only=()):
    """A table of these rows, without columns that are empty; a row's name that is the name above is not repeated."""
    rows = [row for row in rows if not only or set(row) & set(only)]
    at = [at for at in range(len(head)) if any(row[at] not in ("", NONE) for row in rows)]
    rows = [["" if other and row[0] == other[0] else row[0], *row[1:]] for other, row in zip([None, *rows], rows)]
    line = lambda row: f"| {' | '.join(row[it] for it in at)} |".replace("<", "&lt;")
    return "\n".join([line(head), "|" + "---|" * len(at), *map(line, rows)])

def result(name, side):
    path = DIR / side / f"{name}.json"
    it = json.loads(path.read_text())
    assert (it["experiment"], it["machine"]["kind"], it["interrupted"]) == (name, side, False), path
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
    words = lambda holds: "holds" if holds == "yes" else re.sub("^NO", "**does not hold**", holds)
    told = lambda holds, found: NONE if found == NONE else f"{words(holds)}: {found}"
    tables = page(name, "simulated")[0]
    there, predicted = ({row[0]: row for row in tables.get(it, [])} for it in ("claim", "predicted"))
    rows = []
    for claim, document, here, _, holds in page(name, "host")[0]["claim"][1:]:
        *_, simulated, agrees = there.get(claim, [NONE] * 5)
        *_, band, _, judged = predicted.get(claim, [NONE] * 3)
        simulated = re.sub(r", of \d+$", "", simulated)
        simulated += f"; band {band}" if NONE not in (simulated, band) else ""
        agrees = judged if agrees == "cannot be told" and judged != NONE else agrees
        rows.append([claim, document, told(holds, here), told(agrees, simulated)])
    places = ""
    for side in SIDES:
        it = result(name, side)
        command = re.sub(r"^\S+ | --(json|report) \S+", "", it["command"])
        place = f"- {page(name, side)[3]}: `commensal {command}`, commit {it['commit']}; {it['day']}."
        places += textwrap.fill(place, 120, subsequent_indent="  ", break_on_hyphens=False) + "\n"
    return f"{places}\n{markdown(['claim', 'document', 'measured here', 'simulated'], rows)}"

def row_name(parameters, wanted):
    def words(name, value):
        name = WORDS.get(name, name)
        if isinstance(value, bool):
            return name if value else f"not {name}"
        return f"{name} {value}" if isinstance(value, str) else f"{value} {name.removesuffix('s' * (value == 1))}"
    return ", ".join(words(name, value) for name, value in sorted(parameters.items()) if name not in wanted)

def compared(it, unit):
    said, (low, high) = it["verdict"], map(short, it["ci95"])
    if said == "no difference shown":
        said = f"{said}; {short(100 * it['mde'])} % would have been" if it["mde"] else "too few blocks for a verdict"
    elif unit not in NS:
        said = {"faster": "less", "slower": "more"}.get(said, said)
    interval = "" if low == high else f" ({low} to {high})"
    return f" · {short(it['ratio'])} × {it['baseline']}{interval}, {said}"

def of_metric(name, metric, conditions, only):
    wanted = dict((it[3:], "null") if it.startswith("no ") else it.split("=") for it in conditions)
    rows, note = {}, ""
    for at, outcome in enumerate(result(name, side) for side in SIDES):
        held = {(it["candidate"], str(it["parameters"])): it for it in outcome["comparisons"] if it["metric"] == metric}
        for arm in (arm for arm in outcome["arms"] if metric in arm["metrics"]):
            parameters, figure = arm["parameters"], arm["metrics"][metric]
            if any(json.dumps(parameters.get(it)).strip('"') != value for it, value in wanted.items()):
                continue
            it, cell = held.get((arm["name"], str(parameters))), for_people(figure["median"], figure["unit"])
            if not arm["name"].endswith(" again"):
                cell += compared(it, figure["unit"]) if it else ""
                rows.setdefault((row_name(parameters, wanted), arm["name"]), [NONE, NONE])[at] = cell
            elif it and it["verdict"] != "no difference shown":
                note = f"\n\nThe control differs by {short(it['ratio'])} ×: the machine was not at rest."
    rows = [[*names, *cells] for names, cells in rows.items()]
    return markdown(["row", "arm", "measured here", "simulated"], rows, only) + note

def plot(name, side, title, chapter):
    _, plots, colours, _ = page(name, side)
    svg = re.sub(r"var\(--(\w+)\)", lambda it: colours[it[1]], plots[title])
    *_, width, height = re.search('viewBox="(.*?)"', svg)[1].split()
    svg = svg.replace("<svg", f'<svg width="{width}" height="{height}" style="background: #ffffff"', 1)
    path = DOCS / "experiments" / ("-".join([name, side, *re.findall("[a-z0-9]+", title.lower())]) + ".svg")
    path.write_text(svg + "\n")
    return f"![{title}]({os.path.relpath(path, chapter.parent)})"

def made(request, chapter):
    request, _, only = request.partition("; only ")
    only = only.split("|") if only else ()
    match request.split("; "):
        case [name]:
            return of_claims(name)
        case ["validate", line]:
            printed = (DIR / "validate.txt").read_text().split(line)[1].split("\n\n")[0].splitlines()[1:]
            head, *rows = [re.split("  +", it.strip()) for it in printed if it.startswith(" ")]
            return markdown([*head, ""][:len(rows[0])], rows, only)
        case [name, "plot host" | "plot simulated" as kind, title]:
            return plot(name, kind.split()[1], title, chapter)
        case [name, "table simulated", heading]:
            head, *rows = page(name, "simulated")[0][heading]
            return markdown(head, rows, only)
        case [name, metric, *conditions]:
            return of_metric(name, metric, conditions, only)

DIR = pathlib.Path(sys.argv[1])
CHAPTERS = [*map(pathlib.Path, sys.argv[2:])] or [*DOCS.glob("experiments/*.md"), DOCS / "simulated.md"]
BLOCK = re.compile(r"(<!-- measured ([^\n]*?) -->\n).*?(<!-- end of measured -->)", re.S)
for chapter in CHAPTERS:
    filled = lambda it: f"{it[1]}\n{made(it[2], chapter)}\n\n{it[3]}"
    chapter.write_text(BLOCK.sub(filled, chapter.read_text()))
