//! A table before it is decided whether it is shown on a terminal or on a page.

/// Which way a column is set: words left, figures right.
pub use comfy_table::CellAlignment as Side;
use comfy_table::{Cell, ContentArrangement, LineStyle, Table, TableStyle};

/// Lines around the headings only.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'));

/// Headings and rows. A row may be shorter than the headings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// The headings, and how their columns are set.
    pub headings: Vec<(String, Side)>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// A table without rows.
    pub fn new(headings: impl IntoIterator<Item = (impl Into<String>, Side)>) -> Self {
        let headings = headings.into_iter().map(|(heading, side)| (heading.into(), side)).collect();
        Self { headings, rows: Vec::new() }
    }

    /// Appends a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// As text of at most so many columns: long cells are wrapped.
    pub fn within(&self, columns: u16) -> String {
        let mut table = self.table();
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        lines(&table)
    }

    /// As a table of Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | ").replace('\n', "<br>"));
        let rule = self.headings.iter().map(|(_, side)| if *side == Side::Right { "--:" } else { ":--" });
        let escape = |text: &String| text.trim().replace('|', "\\|");
        let headings: Vec<String> = self.headings.iter().map(|(heading, _)| escape(heading)).collect();
        let mut text = line(headings.iter().map(String::as_str).collect()) + &line(rule.collect());
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(escape).collect();
            let all = (0..self.headings.len()).map(|at| cells.get(at).map_or("", String::as_str));
            text += &line(all.collect());
        }
        text
    }

    fn table(&self) -> Table {
        let cell = |text: &String, side: &Side| Cell::new(text).set_alignment(*side);
        let mut table = Table::new();
        table.load_style(STYLE);
        table.set_header(self.headings.iter().map(|(heading, side)| cell(heading, side)));
        for row in &self.rows {
            table.add_row(row.iter().zip(&self.headings).map(|(text, (_, side))| cell(text, side)));
        }
        table
    }
}

impl std::fmt::Display for Sheet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&lines(&self.table()))
    }
}

/// The style pads the last column, too.
fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_all_cells_and_escapes_bars() {
        let mut sheet = Sheet::new([("a|b", Side::Left), ("c", Side::Right)]);
        sheet.add(["one\ntwo", "1"]);
        sheet.add(["short"]);
        assert_eq!(sheet.markdown(), "| a\\|b | c |\n| :-- | --: |\n| one<br>two | 1 |\n| short |  |\n");
    }
}
