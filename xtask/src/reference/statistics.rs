//! The page of the statistics: the tables of the statistics page and their metrics, the lines of `stats:exit`, the slab table and the lock report.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Item, LitInt, LitStr, Token, braced};

use super::metrics::Metric;
use super::source::{Source, documentation, without_links};
use super::{lines, opening};
use crate::markdown::table;
use crate::tokens;
use crate::tree::Tree;

const TABLES: &str = "runtime/src/observe/page/tables.rs";
const EXPORTER: &str = "watch/src/openmetrics.rs";
const REPORT: &str = "runtime/src/heap/report.rs";
const UPKEEP: &str = "runtime/src/upkeep/report.rs";
const SLAB_ROW: &str = "runtime/src/slab/table.rs";
const LOCK_COLUMNS: &str = "runtime/src/observe/columns.rs";

const ABOUT: &str = "\
A process under `commensal run`, or one with `observe:on` in its settings, writes what it knows of itself to a *statistics page*, a file of its own \
in its user's runtime directory, mode 0600. `commensal stat PID` shows all of it, `commensal stat PID --json` has the fields by the names below, \
`commensal top` shows it live, and `commensal stat --prometheus ADDR` serves the metrics. The layout is a version's; a reader of another version says so.

";
const ABOUT_METRICS: &str = "\
Each metric has the labels `pid` and `program`, and those that its table names. Times are in seconds there; moments have no metric, as no two machines have the \
same clock for them. These are there besides:

";
const ABOUT_LINES: &str = "\
`commensal run --stats`, or `stats:exit`, prints on standard error when the program exits what follows. Names in braces stand for numbers and words; \
a line that ends with `…` is gone on with by one of those below it, and some are left out where there is nothing to tell.

";
const ABOUT_SLABINFO: &str = "\
`commensal run --slabinfo` prints it when the program exits, `commensal slabinfo PID` at any time; there the columns of what was tuned are zeroes. The columns are \
those of the kernel's `/proc/slabinfo`.

";
const ABOUT_LOCKS: &str = "\
`commensal run --locks` prints it when the program exits, `--locks-json` as JSON, and `cm_lock_report` gives C programs the same rows at any time. The columns are \
those of `perf lock contention`; times have the largest unit that suits them as text, and are nanoseconds as JSON.

";

/// Makes the page.
pub fn page(tree: &Tree, metrics: &[Metric]) -> Result<String, String> {
    let sources = format!("{TABLES}, {EXPORTER}, {REPORT}, {UPKEEP}, {SLAB_ROW} and {LOCK_COLUMNS}");
    let mut text = opening("Statistics", &sources) + "## The statistics page\n\n" + ABOUT;
    text += &kinds_and_units(tree)?;
    text += &page_tables(tree, metrics)?;
    text += &format!("\n## Printed at exit\n\n{ABOUT_LINES}{}", exit_lines(tree)?);
    text += &format!("\n## The slab table\n\n{ABOUT_SLABINFO}{}", slab_table(tree)?);
    text += &format!("\n## The lock report\n\n{ABOUT_LOCKS}{}", lock_report(tree)?);
    Ok(text)
}

/// The words of the columns "kind" and "unit".
fn kinds_and_units(tree: &Tree) -> Result<String, String> {
    let source = Source::read(tree, TABLES)?;
    let mut text = String::new();
    for name in ["Kind", "Unit"] {
        text += &format!("{name}s are ");
        let words = source
            .variants(name)?
            .into_iter()
            .map(|(variant, says)| format!("*{}* ({})", word(&variant), says.trim_end_matches('.')));
        text += &words.collect::<Vec<_>>().join(", ");
        text += ".\n";
    }
    Ok(text)
}

/// `YesOrNo` as people write it.
fn word(variant: &str) -> String {
    let spaced = variant.chars().enumerate().flat_map(|(at, letter)| {
        let blank = (at > 0 && letter.is_uppercase()).then_some(' ');
        blank.into_iter().chain(letter.to_lowercase())
    });
    spaced.collect()
}

struct Row {
    about: String,
    name: Ident,
    table: LitStr,
    texts: Vec<(Ident, String)>,
    fields: Vec<Field>,
}

struct Field {
    name: Ident,
    kind: Ident,
    unit: Ident,
    says: String,
}

impl Parse for Row {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let about = documentation(&input.call(Attribute::parse_outer)?);
        let name = input.parse()?;
        input.parse::<Token![in]>()?;
        input.parse::<LitInt>()?;
        let table = input.parse()?;
        let (texts, fields);
        braced!(texts in input);
        braced!(fields in input);
        let text = |input: ParseStream<'_>| -> syn::Result<(Ident, String)> {
            let says = documentation(&input.call(Attribute::parse_outer)?);
            let name = input.parse()?;
            input.parse::<Token![:]>()?;
            input.parse::<LitInt>()?;
            Ok((name, says))
        };
        let field = |input: ParseStream<'_>| -> syn::Result<Field> {
            let says = documentation(&input.call(Attribute::parse_outer)?);
            let name = input.parse()?;
            input.parse::<Token![:]>()?;
            Ok(Field { name, kind: input.parse()?, unit: input.parse()?, says })
        };
        let texts = Punctuated::<_, Token![,]>::parse_terminated_with(&texts, text)?.into_iter().collect();
        let fields = Punctuated::<_, Token![,]>::parse_terminated_with(&fields, field)?.into_iter().collect();
        Ok(Row { about, name, table, texts, fields })
    }
}

/// All tables, each field with its metric. What the command served when it was asked, which are the metrics that had samples, must be among these.
fn page_tables(tree: &Tree, served: &[Metric]) -> Result<String, String> {
    let rows = rows(tree)?;
    let exported = rows.iter().map(|row| Exported::of(tree, row)).collect::<Result<Vec<_>, _>>()?;
    let names = |row: usize| {
        rows[row].fields.iter().map({
            let prefix = &exported[row].prefix;
            move |field| (metric_name(prefix, field), field)
        })
    };
    let all: Vec<(Option<String>, &Field)> = (0..rows.len()).flat_map(names).collect();
    let besides = hold_against_served(&all, rows[0].fields.len(), served)?;
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        text += &format!("\n### {}\n\n{}", row.table.value(), row.about);
        let labels = exported[number].number.iter().map(|label| format!("* `{label}`: the row's number.\n"));
        let labels =
            labels.chain(row.texts.iter().map(|(name, says)| format!("* `{name}`: {says}\n"))).collect::<String>();
        text += if labels.is_empty() { "\n" } else { " Its metrics have these labels besides:\n\n" };
        text += &labels;
        text += "\n";
        let described = names(number).map(|(metric, field)| {
            let metric = metric.map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            let [kind, unit] = [&field.kind, &field.unit].map(|ident| word(&ident.to_string()));
            vec![format!("`{}`", field.name), kind, unit, metric, field.says.clone()]
        });
        text += &table(&["field", "kind", "unit", "metric", "meaning"], described);
    }
    let besides = besides.iter().map(|metric| vec![format!("`{}`", metric.name), metric.help.clone()]);
    Ok(text + "\n### Metrics\n\n" + ABOUT_METRICS + &table(&["metric", "meaning"], besides))
}

/// The rows that the page of a process has.
fn rows(tree: &Tree) -> Result<Vec<Row>, String> {
    let source = Source::read(tree, TABLES)?;
    let calls = source.all(|item| match item {
        Item::Macro(call) if call.mac.path.is_ident("row") => Some(&call.mac),
        _ => None,
    });
    let rows = calls.into_iter().map(|call| call.parse_body::<Row>());
    let rows: Vec<Row> =
        rows.collect::<Result<_, _>>().map_err(|error| format!("{TABLES}: a row! cannot be read: {error}"))?;
    for row in &rows {
        let texts = row.texts.iter().map(|(name, says)| (name, says));
        for (name, says) in texts.chain(row.fields.iter().map(|field| (&field.name, &field.says))) {
            if says.is_empty() || row.about.is_empty() {
                let what = format!(
                    "`{name}` of {} has no description; write what it means as a comment `///` above it",
                    row.name
                );
                return Err(source.error(name, what));
            }
        }
    }
    if rows.is_empty() { Err(format!("{TABLES} has no row! {{ … }}")) } else { Ok(rows) }
}

/// How a table is exported.
struct Exported {
    /// What its metrics begin with.
    prefix: String,
    /// The label that has the row's number.
    number: Option<String>,
}

impl Exported {
    fn of(tree: &Tree, row: &Row) -> Result<Self, String> {
        let name = row.name.to_string();
        let tokens = tree.file(EXPORTER).map(|file| file.tokens()).unwrap_or_default();
        let call = tokens::find(&tokens, &["table", "::", "<", &name, ">", "("]).next();
        let prefix = call.and_then(|at| (at..tokens.len()).find(|&at| tokens[at].literal));
        let prefix = prefix.ok_or_else(|| format!("{EXPORTER} exports no `table::<{name}>(…)`"))?;
        let text = |at: usize| tokens[at].text.trim_matches('"').to_owned();
        let number = tokens::is(&tokens[prefix + 1..], &[",", "Some", "("]).then(|| text(prefix + 4));
        Ok(Exported { prefix: text(prefix), number })
    }
}

/// What a field's samples are called, by the rules of the format: the base unit at the end, and "total" for what only grows.
fn metric_name(prefix: &str, field: &Field) -> Option<String> {
    let unit = match field.unit.to_string().as_str() {
        "Moment" => return None,
        "Bytes" => "_bytes",
        "Nanoseconds" => "_seconds",
        _ => "",
    };
    let name = field.name.to_string();
    let name = name.trim_end_matches("_bytes").trim_end_matches("_ns");
    let total = if field.kind == "Counter" { "_total" } else { "" };
    Some(format!("commensal_{prefix}{name}{unit}{total}"))
}

/// Returns those that are served before the first of ours. Of the first `figures` fields, which every process has, all are served.
fn hold_against_served<'a>(
    all: &[(Option<String>, &Field)],
    figures: usize,
    served: &'a [Metric],
) -> Result<&'a [Metric], String> {
    let is = |metric: &Metric, (name, field): &(Option<String>, &Field)| {
        name.as_ref() == Some(&metric.name) && field.says == metric.help
    };
    let first = served.iter().position(|metric| all.iter().any(|named| is(metric, named))).unwrap_or(served.len());
    let (besides, ours) = served.split_at(first);
    if let Some(metric) = ours.iter().find(|metric| !all.iter().any(|named| is(metric, named))) {
        let Metric { name, help } = metric;
        return Err(format!(
            "the command serves {name} ({help:?}), which no field of {TABLES} is called; do names follow another rule now?"
        ));
    }
    let missing = all[..figures].iter().find(|named| named.0.is_some() && !ours.iter().any(|metric| is(metric, named)));
    match missing {
        Some((Some(name), field)) => {
            Err(format!("the command does not serve {name} ({:?}); do names follow another rule now?", field.says))
        }
        _ => Ok(besides),
    }
}

/// The lines of the report, and what the names in them mean.
fn exit_lines(tree: &Tree) -> Result<String, String> {
    let (report, upkeep) = (lines::of(tree, REPORT, "write_text")?, lines::of(tree, UPKEEP, "fmt")?);
    let mut text = "```text\n".to_owned();
    for line in report.iter().chain(&upkeep) {
        text += &line.text;
        text += "\n";
    }
    text += "```\n\n";
    let (heap, of_upkeep) = (Source::read(tree, REPORT)?, Source::read(tree, UPKEEP)?);
    let fields = [
        ("the heap", heap.fields("Report")?),
        ("a size class", heap.fields("ClassReport")?),
        ("upkeep", of_upkeep.fields("Report")?),
    ];
    let unitless = |name: &str| name.trim_end_matches("_bytes").trim_end_matches("_ns").to_owned();
    let is_printed = |name: &str| text.contains(&format!("{{{}}}", unitless(name)));
    let all = fields.iter().flat_map(|(of, fields)| fields.iter().map(move |(name, says)| (*of, name, says)));
    let rows = all.filter(|(_, name, _)| is_printed(name));
    let rows = rows
        .map(|(of, name, says)| vec![format!("`{}`", unitless(name)), of.to_owned(), without_links(says, |_| None)]);
    let legend = table(&["name", "of", "meaning"], rows);
    Ok(text + &legend)
}

/// The columns of the slab table: the heads in the text, and what is written below them.
fn slab_table(tree: &Tree) -> Result<String, String> {
    let written = lines::of(tree, REPORT, "write_slabinfo")?;
    let heads = written.iter().find_map(|line| line.text.strip_prefix("# ")).unwrap_or("");
    let heads: Vec<&str> = heads
        .split_whitespace()
        .filter(|word| *word == "name" || word.starts_with('<'))
        .map(|word| word.trim_matches(['<', '>']))
        .collect();
    let cells = written.iter().map(|line| &line.arguments).find(|arguments| arguments.len() > 1);
    let cells = cells
        .filter(|cells| cells.len() == heads.len())
        .ok_or_else(|| format!("{REPORT}: write_slabinfo writes other columns than it has heads"))?;
    let fields = Source::read(tree, SLAB_ROW)?.fields("Row")?;
    let rows = heads.iter().zip(cells).map(|(head, words)| {
        let field = fields.iter().find(|(name, _)| words.contains(name));
        let says = field.map_or("Nothing here: 0, for those who read the kernel's table.", |(_, says)| says);
        vec![format!("`{head}`"), says.to_owned()]
    });
    Ok(table(&["column", "meaning"], rows))
}

struct Column {
    says: String,
    name: String,
}

impl Parse for Column {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let says = documentation(&input.call(Attribute::parse_outer)?);
        let field: Ident = input.parse()?;
        let renamed = match input.parse::<Option<Token![as]>>()? {
            Some(_) => Some(input.parse::<LitStr>()?.value()),
            None => None,
        };
        // How its cells are written is the text's.
        while !input.is_empty() && !input.peek(Token![,]) {
            input.parse::<proc_macro2::TokenTree>()?;
        }
        Ok(Column { says, name: renamed.unwrap_or_else(|| field.to_string()) })
    }
}

/// The columns of the lock report.
fn lock_report(tree: &Tree) -> Result<String, String> {
    let described = |path, name: &str| -> Result<Vec<Column>, String> {
        let source = Source::read(tree, path)?;
        let call = source.find(&format!("{name}! {{ … }}"), |item| match item {
            Item::Macro(call) if call.mac.path.is_ident(name) => Some(&call.mac),
            _ => None,
        })?;
        let columns = call.parse_body_with(Punctuated::<Column, Token![,]>::parse_terminated);
        let columns: Vec<Column> =
            columns.map_err(|error| format!("{path}: {name}! cannot be read: {error}"))?.into_iter().collect();
        match columns.iter().find(|column| column.says.is_empty()) {
            Some(column) => Err(format!(
                "{path}: `{}` has no description; write what it means as a comment `///` above it",
                column.name
            )),
            None => Ok(columns),
        }
    };
    let columns = described(LOCK_COLUMNS, "columns")?.into_iter().map(|column| {
        let head = column.name.trim_end_matches("_ns").replace('_', " ");
        vec![head, format!("`{}`", column.name), column.says]
    });
    Ok(table(&["column", "in JSON", "meaning"], columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        enum Kind { /// Up and down.
            Gauge }
        row! {
            /// The process.
            Figures in 0 \"process\" {} {
                /// Bytes in use.
                in_use_bytes: Gauge Bytes,
                /// When.
                since_ns: Gauge Moment,
            }
        }
        row! {
            /// A cache.
            Cache in 1 \"caches\" {
                /// Its name.
                name: 8,
            } {
                /// Refills.
                refills: Counter Count,
            }
        }";

    fn metric(name: &str, help: &str) -> Metric {
        Metric { name: name.to_owned(), help: help.to_owned() }
    }

    const CALLS: &str =
        "fn encode() { table::<Figures>(e, \"\", None); table::<Cache>(e, \"cache_\", Some(\"place\")) }";

    fn said(source: &str, metrics: &[Metric]) -> Result<String, String> {
        page_tables(&Tree::of([(TABLES, source), (EXPORTER, CALLS)]), metrics)
    }

    fn served() -> [Metric; 3] {
        [
            metric("commensal_processes", "All."),
            metric("commensal_in_use_bytes", "Bytes in use."),
            metric("commensal_cache_refills_total", "Refills."),
        ]
    }

    #[test]
    fn fields_have_metrics_as_they_are_served() {
        let page = said(SOURCE, &served()).unwrap();
        for line in [
            "| `in_use_bytes` | gauge | bytes | `commensal_in_use_bytes` | Bytes in use. |",
            "| `since_ns` | gauge | moment | – | When. |",
            "| `refills` | counter | count | `commensal_cache_refills_total` | Refills. |",
            "* `place`: the row's number.",
            "* `name`: Its name.",
            "| `commensal_processes` | All. |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line} in\n{page}");
        }
        // Nobody has a cache now.
        assert_eq!(said(SOURCE, &served()[..2]).unwrap(), page);
    }

    #[test]
    fn what_is_missing_or_served_by_another_name_is_found() {
        let error = said(&SOURCE.replace("/// Refills.", ""), &served()).unwrap_err();
        assert!(error.contains("tables.rs:20: `refills` of Cache has no description"), "{error}");
        let mut renamed = served();
        renamed[2].name = "commensal_cache_refilled_total".to_owned();
        assert!(said(SOURCE, &renamed).unwrap_err().contains("serves commensal_cache_refilled_total"));
        let mut renamed = served();
        renamed[1].name = "commensal_in_use".to_owned();
        assert!(said(SOURCE, &renamed).unwrap_err().contains("does not serve commensal_in_use_bytes"));
        let tree = Tree::of([(TABLES, SOURCE), (EXPORTER, "")]);
        assert!(page_tables(&tree, &served()).unwrap_err().contains("exports no `table::<Figures>"));
    }

    #[test]
    fn the_page_has_all_of_its_parts() {
        let tree = Tree::read(&crate::root());
        let text = exit_lines(&tree).unwrap();
        assert!(
            text.contains("in use {in_use} (peak {peak})") && text.contains("upkeep: {bytes} bytes given back"),
            "{text}"
        );
        assert!(text.contains("| `peak_run` | the heap | The most that `run_bytes` has been. |"), "{text}");
        let text = slab_table(&tree).unwrap();
        assert!(
            text.contains("| `objperslab` | Objects of a span. |") && text.contains("| `sharedavail` | Nothing"),
            "{text}"
        );
        let text = lock_report(&tree).unwrap();
        assert!(
            text.contains("| total wait | `total_wait_ns` | Nanoseconds waited") && text.contains("| `type` |"),
            "{text}"
        );
    }
}
