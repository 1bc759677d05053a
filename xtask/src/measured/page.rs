//! A report page, as `commensal lab … --report` writes it: its tables, its plots, and the colours of its day.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What is read of a page.
pub struct Page {
    name: String,
    tables: Vec<Table>,
    /// By their titles.
    plots: Vec<(String, String)>,
    colours: BTreeMap<String, String>,
}

/// One table.
#[derive(Debug)]
pub struct Table {
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Page {
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            format!("{name} cannot be read ({error}); expected the page of `commensal lab NAME --report DIR`")
        })?;
        Self::of(&name, &text)
    }

    fn of(name: &str, text: &str) -> Result<Self, String> {
        let colours = colours(text);
        if colours.is_empty() {
            return Err(format!(
                "{name} has no style with colours; expected the page of `commensal lab NAME --report DIR`"
            ));
        }
        let tables = elements(text, "table").map(table).collect();
        let mut plots: Vec<(String, String)> = Vec::new();
        for figure in elements(text, "figure") {
            let svg = element(figure, "svg").ok_or_else(|| format!("{name} has a figure without a plot"))?;
            let title = title(figure);
            // A title that was there already gets a number.
            let same =
                plots.iter().filter(|(known, _)| *known == title || known.starts_with(&format!("{title} ("))).count();
            let title = if same == 0 { title } else { format!("{title} ({})", same + 1) };
            plots.push((title, svg.to_owned()));
        }
        Ok(Page { name: name.to_owned(), tables, plots, colours })
    }

    /// The table that begins with this heading.
    pub fn table(&self, heading: &str) -> Result<&Table, String> {
        let is_it = |table: &&Table| table.headings.first().is_some_and(|first| first == heading);
        self.tables.iter().find(is_it).ok_or_else(|| {
            let there: Vec<&str> =
                self.tables.iter().filter_map(|table| Some(table.headings.first()?.as_str())).collect();
            format!("{} has no table that begins with `{heading}`; there are: {}", self.name, there.join(" · "))
        })
    }

    /// The plot with this title.
    pub fn plot(&self, title: &str) -> Result<&str, String> {
        let found = self.plots.iter().find(|(known, _)| known == title);
        found.map(|(_, svg)| svg.as_str()).ok_or_else(|| {
            let there: Vec<&str> = self.plots.iter().map(|(title, _)| title.as_str()).collect();
            format!("{} has no plot `{title}`; there are: {}", self.name, there.join(" · "))
        })
    }

    /// What the style's variables are by day.
    pub fn colours(&self) -> &BTreeMap<String, String> {
        &self.colours
    }
}

impl Table {
    /// Where a column is.
    pub fn column(&self, heading: &str) -> Result<usize, String> {
        let found = self.headings.iter().position(|known| known == heading);
        found.ok_or_else(|| format!("a table has no column `{heading}`; there are: {}", self.headings.join(" · ")))
    }
}

/// The variables of the first `:root`, which is the one by day.
fn colours(text: &str) -> BTreeMap<String, String> {
    let rules = text.split_once(":root {").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(rules, _)| rules);
    let variables = rules.split(';').filter_map(|rule| rule.trim().strip_prefix("--")?.split_once(':'));
    variables.map(|(name, colour)| (name.to_owned(), colour.trim().to_owned())).collect()
}

fn table(markup: &str) -> Table {
    let cells = |row: &str, tag| elements(row, tag).map(words).collect::<Vec<_>>();
    let headings = elements(markup, "tr").next().map_or(Vec::new(), |row| cells(row, "th"));
    let rows = elements(markup, "tr").map(|row| cells(row, "td")).filter(|row| !row.is_empty()).collect();
    Table { headings, rows }
}

/// What stands above a plot, or else inside it at its head; both, if the former only says which row it is of.
fn title(figure: &str) -> String {
    let caption = element(figure, "figcaption").map(words);
    let inside = elements(figure, "text").next().map(words);
    match (caption, inside) {
        (Some(caption), Some(inside)) if !figure.contains("class=\"wide\"") => format!("{caption}: {inside}"),
        (Some(caption), _) => caption,
        (None, inside) => inside.unwrap_or_default(),
    }
}

/// The elements of a kind, one after the other, tags included; none lies in another one of its kind.
fn elements<'a>(text: &'a str, tag: &str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{tag}"), format!("</{tag}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let from = rest.find(&begin)?;
            let to = from + rest[from..].find(&end)? + end.len();
            let found = &rest[from..to];
            let is_whole_name = found[begin.len()..].starts_with([' ', '>']);
            rest = if is_whole_name { &rest[to..] } else { &rest[from + begin.len()..] };
            if is_whole_name {
                return Some(found);
            }
        }
    })
}

fn element<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    elements(text, tag).next()
}

/// An element's text.
fn words(element: &str) -> String {
    let inside = element.split_once('>').and_then(|(_, rest)| rest.rsplit_once("</")).map_or("", |(inside, _)| inside);
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(inside.trim().to_owned(), |text, (entity, is)| text.replace(entity, is))
}

/// A page with a claim, what was predicted of it, and two plots.
#[cfg(test)]
pub fn example() -> &'static str {
    "<style>:root {\n --paper: #fff; --ink: #1b1f24;\n --arm0: #6e7781;\n}\n@media dark { :root { --ink: #e6edf3; } }</style>\
     <div class=\"scroll\"><table><thead><tr><th>claim</th><th class=\"right\">document</th><th class=\"right\">measured here</th>\
     <th class=\"right\">simulated at N</th><th>holds here</th></tr></thead><tbody><tr><td>kick on create: &lt;several&gt;</td>\
     <td class=\"right\">47741 of 10000</td><td class=\"right\">9,000 | of 10000</td><td class=\"right\">40000 of 10000</td><td>NO</td></tr></tbody></table>\
     <table><thead><tr><th>predicted</th><th>document</th><th>simulated at N</th><th>least and most costs</th><th>as predicted</th><th>as the document</th></tr></thead>\
     <tbody><tr><td>kick on create: &lt;several&gt;</td><td>47741</td><td>5.000, simulated, of 80</td><td>4.5 to 5.5</td><td>yes, had been seen</td><td>NO</td></tr></tbody></table></div>\
     <figure><svg role=\"img\" viewBox=\"0 0 480 280\" xmlns=\"x\"><rect fill=\"none\"/><text fill=\"var(--ink)\">\nfirst object\n</text></svg></figure>\
     <figure><figcaption>10000 groups</figcaption><svg viewBox=\"0 0 1 1\"><text>\nkicks, block by block\n</text></svg></figure>\
     <figure><svg viewBox=\"0 0 480 280\"><text>\nfirst object\n</text></svg></figure>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_plots_are_found_by_name() {
        let page = Page::of("page", example()).unwrap();
        let claims = page.table("claim").unwrap();
        assert_eq!(claims.rows[0][0], "kick on create: <several>");
        assert_eq!((claims.column("holds here"), claims.headings.len()), (Ok(4), 5));
        assert!(claims.column("held").unwrap_err().contains("measured here"));
        assert!(page.plot("first object").unwrap().ends_with("</svg>"));
        assert!(page.plot("10000 groups: kicks, block by block").is_ok() && page.plot("first object (2)").is_ok());
        assert!(page.plot("kicks").unwrap_err().contains("first object"));
        assert_eq!(page.colours()["ink"], "#1b1f24", "by day");
    }

    #[test]
    fn another_page_is_refused() {
        assert!(Page::of("page", "<html>hello</html>").is_err());
        let without = example().replace("<svg", "<canvas");
        assert!(Page::of("page", &without).is_err());
    }
}
