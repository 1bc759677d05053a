//! The page of the statistics: the tables of the statistics page and their metrics, the lines of `stats:exit`, the slab table and the lock report.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Item, LitInt, LitStr, Token, braced};

use super::metrics::Metric;
use super::source::{Source, documentation};
use super::{lines, opening};
use crate::markdown::table;
use crate::tree::Tree;

const TABLES: &str = "runtime/src/observe/page/tables.rs";
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
    let sources =
        format!("{TABLES}, {REPORT}, {UPKEEP}, {SLAB_ROW}, {LOCK_COLUMNS} and the metrics that the command serves");
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

/// All tables, each field with the metric that is next and says the same.
fn page_tables(tree: &Tree, metrics: &[Metric]) -> Result<String, String> {
    let source = Source::read(tree, TABLES)?;
    let calls = source.all(|item| match item {
        Item::Macro(call) if call.mac.path.is_ident("row") => Some(&call.mac),
        _ => None,
    });
    let rows = calls
        .into_iter()
        .map(|call| call.parse_body::<Row>().map_err(|error| format!("{TABLES}: a row! cannot be read: {error}")));
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    for row in &rows {
        let texts = row.texts.iter().map(|(name, says)| (name, says));
        for (name, says) in texts.chain(row.fields.iter().map(|field| (&field.name, &field.says))) {
            if says.is_empty() || row.about.is_empty() {
                return Err(source.error(
                    name,
                    format!(
                        "`{name}` of {} has no description; write what it means as a comment `///` above it",
                        row.name
                    ),
                ));
            }
        }
    }
    let first =
        rows.iter().find_map(|row| row.fields.first()).ok_or_else(|| format!("{TABLES} has no row! with fields"))?;
    let besides = metrics.iter().take_while(|metric| metric.help != first.says).count();
    let mut left = metrics[besides..].iter().peekable();
    let mut text = String::new();
    for row in &rows {
        text += &format!("\n### {}\n\n{}", row.table.value(), row.about);
        text += if row.texts.is_empty() { "\n" } else { " Its metrics have these labels besides:\n\n" };
        text += &row.texts.iter().map(|(name, says)| format!("* `{name}`: {says}\n")).collect::<String>();
        text += "\n";
        let described = row.fields.iter().map(|field| {
            let metric = left.next_if(|metric| metric.help == field.says);
            let metric = metric.map_or_else(|| "–".to_owned(), |metric| format!("`{}`", metric.name));
            vec![
                format!("`{}`", field.name),
                word(&field.kind.to_string()),
                word(&field.unit.to_string()),
                metric,
                field.says.clone(),
            ]
        });
        text += &table(&["field", "kind", "unit", "metric", "meaning"], described);
    }
    if let Some(metric) = left.next() {
        return Err(format!(
            "the command serves {} ({:?}), which {TABLES} does not have at this place; is the command older?",
            metric.name, metric.help
        ));
    }
    let besides = metrics[..besides].iter().map(|metric| vec![format!("`{}`", metric.name), metric.help.clone()]);
    Ok(text + "\n### Metrics\n\n" + ABOUT_METRICS + &table(&["metric", "meaning"], besides))
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
    let fields = [heap.fields("Report")?, heap.fields("ClassReport")?, of_upkeep.fields("Report")?].concat();
    let unitless = |name: &str| name.trim_end_matches("_bytes").trim_end_matches("_ns").to_owned();
    let is_printed = |name: &str| text.contains(&format!("{{{}}}", unitless(name)));
    let rows = fields
        .iter()
        .filter(|(name, _)| is_printed(name))
        .map(|(name, says)| vec![format!("`{}`", unitless(name)), super::source::without_links(says, |_| None)]);
    let legend = table(&["name", "meaning"], rows);
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

    fn said(source: &str, metrics: &[Metric]) -> Result<String, String> {
        page_tables(&Tree::of([(TABLES, source)]), metrics)
    }

    #[test]
    fn fields_have_the_metrics_that_say_the_same() {
        let served = [
            metric("c_processes", "All."),
            metric("c_in_use_bytes", "Bytes in use."),
            metric("c_cache_refills_total", "Refills."),
        ];
        let page = said(SOURCE, &served).unwrap();
        for line in [
            "| `in_use_bytes` | gauge | bytes | `c_in_use_bytes` | Bytes in use. |",
            "| `since_ns` | gauge | moment | – | When. |",
            "| `refills` | counter | count | `c_cache_refills_total` | Refills. |",
            "* `name`: Its name.",
            "| `c_processes` | All. |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line} in\n{page}");
        }
    }

    #[test]
    fn what_is_missing_or_served_by_an_older_command_is_found() {
        let error = said(&SOURCE.replace("/// Refills.", ""), &[]).unwrap_err();
        assert!(error.contains("tables.rs:20: `refills` of Cache has no description"), "{error}");
        let served = [metric("c_in_use_bytes", "Bytes in use."), metric("c_gone", "Gone.")];
        assert!(said(SOURCE, &served).unwrap_err().contains("serves c_gone"));
    }

    #[test]
    fn the_page_has_all_of_its_parts() {
        let tree = Tree::read(&crate::root());
        let text = exit_lines(&tree).unwrap();
        assert!(
            text.contains("in use {in_use} (peak {peak})") && text.contains("upkeep: {bytes} bytes given back"),
            "{text}"
        );
        assert!(text.contains("| `peak_run` | The most that `run_bytes` has been. |"), "{text}");
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
