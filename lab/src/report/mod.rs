//! A result as an HTML page: tables, plots and notes, in one file that needs no network.

pub mod plot;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::analysis::{Analysis, BASELINE};
use crate::json::Object;
use crate::sheet::{Sheet, Side};
use crate::table;

const STYLE: &str = include_str!("page.css");

/// The part of a page for one measurement or experiment.
pub struct Chapter<'a> {
    /// What was measured.
    pub title: String,
    /// What a reader should know before the tables.
    pub about: Vec<String>,
    /// Tables about all of its sections.
    pub sheets: Vec<Sheet>,
    /// Likewise, plots.
    pub pictures: &'a [Figure],
    /// What came out.
    pub sections: Vec<Section<'a>>,
    /// The same for machines.
    pub object: Object,
}

/// One measurement of a chapter.
pub struct Section<'a> {
    /// What was measured; empty if the chapter says it.
    pub title: String,
    /// What came out.
    pub analysis: &'a Analysis,
    /// Its tables.
    pub sheets: Vec<Sheet>,
    /// Draws its plots.
    pub plots: Plots,
}

/// Draws the plots of a measurement.
pub type Plots = fn(&Analysis) -> Vec<Figure>;

/// A plot as SVG, with a line above it, which may be empty.
pub struct Figure {
    /// The line.
    pub caption: String,
    /// The plot.
    pub svg: String,
    /// Whether it takes the width of the page, and not of a phone.
    pub is_wide: bool,
}

impl Figure {
    /// A plot that has its title inside.
    pub fn bare(svg: String) -> Self {
        Self { caption: String::new(), svg, is_wide: false }
    }
}

impl<'a> Section<'a> {
    /// The only one of its chapter, with the tables and plots that every measurement has.
    pub fn usual(analysis: &'a Analysis) -> Self {
        Self { title: String::new(), analysis, sheets: table::usual(analysis), plots: usual_plots }
    }
}

/// Writes `index.html`, and the results as JSON, into a directory that it makes if need be.
pub fn write(directory: &Path, chapters: &[Chapter]) -> Result<()> {
    let place = || format!("cannot write the report into the directory {}", directory.display());
    fs::create_dir_all(directory).with_context(place)?;
    fs::write(directory.join("index.html"), page(chapters).into_string()).with_context(place)?;
    for chapter in chapters {
        chapter.object.write(&directory.join(chapter.object.file_name()))?;
    }
    Ok(())
}

fn page(chapters: &[Chapter]) -> Markup {
    let title = chapters.first().map_or("", |chapter| &chapter.title);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – Commensal" }
                style { (PreEscaped(STYLE)) }
            }
            body { @for of in chapters { (chapter(of)) } }
        }
    }
}

fn chapter(chapter: &Chapter) -> Markup {
    html! {
        h1 { (chapter.title) }
        @for paragraph in &chapter.about { p { (paragraph) } }
        @for sheet in &chapter.sheets { (table_of(sheet)) }
        @for picture in chapter.pictures { (figure(picture)) }
        @for of in &chapter.sections { (section(of)) }
        h2 { @if chapter.object.machine().is_simulated() { "The simulated machine" } @else { "The machine" } }
        pre { (table::place(chapter.object.machine())) }
        p { a href=(chapter.object.file_name()) { "All runs as JSON" } }
    }
}

fn section(section: &Section) -> Markup {
    let analysis = section.analysis;
    let notes = table::notes(analysis);
    let figures = if analysis.measured.blocks == 0 { Vec::new() } else { (section.plots)(analysis) };
    html! {
        @if !section.title.is_empty() { h2 { (section.title) } }
        @if !notes.is_empty() { pre.notes { (notes) } }
        @for sheet in &section.sheets { (table_of(sheet)) }
        p { (table::legend(analysis, &section.sheets)) }
        @for shown in &figures { (figure(shown)) }
        pre { (table::how(analysis)) }
    }
}

fn figure(figure: &Figure) -> Markup {
    html! {
        figure class=[figure.is_wide.then_some("wide")] {
            @if !figure.caption.is_empty() { figcaption { (figure.caption) } }
            (PreEscaped(&figure.svg))
        }
    }
}

/// The plots that every measurement has.
pub fn usual_plots(analysis: &Analysis) -> Vec<Figure> {
    let mut plots = Vec::new();
    let (is_alone, rows) = (analysis.rows.len() == 1, &analysis.measured.rows);
    for metric in analysis.main_metrics() {
        if is_alone {
            plots.extend(plot::intervals(analysis, &analysis.rows[0][metric], BASELINE));
            plots.extend(plot::runs(analysis, 0, metric));
        } else {
            plots.extend(plot::subjects(analysis, metric));
        }
    }
    for (at, row) in rows.iter().enumerate().filter(|_| !is_alone) {
        plots.extend(plot::runs(analysis, at, 0).map(|figure| Figure { caption: row.name(), ..figure }));
    }
    plots
}

fn table_of(sheet: &Sheet) -> Markup {
    let class = |at: usize| (sheet.headings[at].1 == Side::Right).then_some("right");
    html! {
        div.scroll {
            table {
                thead { tr { @for (at, (heading, _)) in sheet.headings.iter().enumerate() { th class=[class(at)] { (heading) } } } }
                tbody {
                    @for row in &sheet.rows {
                        tr { @for at in 0..sheet.headings.len() { td class=[class(at)] { @if let Some(cell) = row.get(at) { (cell) } } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::json;

    fn page_of(subjects: &[&str]) -> String {
        let analysis = example::analysis(subjects);
        let object = json::object("compare", &crate::machine::Machine::host(), &[(&analysis, json::UNDOCUMENTED)]);
        let (title, sections) = ("a <program>".to_owned(), vec![Section::usual(&analysis)]);
        let chapter = Chapter { title, about: Vec::new(), sheets: Vec::new(), pictures: &[], sections, object };
        page(&[chapter]).into_string()
    }

    #[test]
    fn page_escapes_what_programs_say() {
        let page = page_of(&[""]);
        assert!(page.contains("a &lt;program&gt;") && page.contains("&lt;it&gt; said so"));
    }

    /// Colours that the page does not choose would be unreadable by day or by night.
    #[test]
    fn plots_have_the_colours_of_the_page() {
        let page = page_of(&["larson", "store"]);
        let plots: Vec<&str> = page.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect();
        assert!(plots.len() >= 4, "{}", plots.len());
        for plot in plots {
            let attributes = ["fill=\"", "stroke=\""].into_iter().flat_map(|name| plot.split(name).skip(1));
            let colours: Vec<&str> = attributes.map(|rest| rest.split('"').next().unwrap()).collect();
            assert!(colours.len() > 10);
            let foreign = |colour: &&&str| !colour.starts_with("var(--") && **colour != "none";
            assert_eq!(colours.iter().find(foreign), None);
        }
        for arm in 0..plot::ARM_COLOURS {
            assert_eq!(STYLE.matches(&format!("--arm{arm}:")).count(), 2, "by day and by night");
        }
    }
}
