//! The book's figures, from the files that measurements wrote: `cargo xtask measured DIR` fills marked blocks of its chapters, so that nobody types a figure.
//!
//! ```text
//! DIR/host/NAME.json       DIR/host/report-NAME/index.html          `commensal lab NAME --json … --report …`
//! DIR/simulated/NAME.json  DIR/simulated/report-NAME/index.html     the same with --cpus
//! DIR/validate.json        DIR/forecast/                            `commensal lab validate`, `commensal lab forecast`
//!
//! <!-- measured counters -->                                        where it was measured, and the document's claims
//! <!-- measured counters; owner_add_ns; threads=1 -->               one metric: a line for each arm, in all rows with these parameters
//! <!-- measured counters; plot host; upgrade, by possible CPUs -->  a plot of the page, by its title
//! <!-- measured counters; table simulated; predicted -->            a table of the page, by its first heading
//! <!-- measured validate; here -->                                  how far the simulated machine is off: from this one, or `curves`
//! … what is made here …
//! <!-- end of measured -->
//! ```
//!
//! Files of another form, names that are nowhere in them and paths of the machine are errors; then nothing is written.

mod blocks;
mod page;
// Of the lab, of which this needs no more.
#[path = "../../../lab/src/parameter_names.rs"]
mod parameter_names;
mod plot;
mod result;
mod table;
mod validate;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use page::Page;
use result::Outcome;

/// The chapters that may have blocks, from the root: a folder's, and single ones. Plots lie in the folder.
const FOLDER: &str = "docs/experiments";
const CHAPTERS: [&str; 1] = ["docs/simulated.md"];

/// Where something was measured.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Host,
    Simulated,
}

impl Side {
    fn of(word: &str) -> Result<Self, String> {
        match word {
            "host" => Ok(Side::Host),
            "simulated" => Ok(Side::Simulated),
            _ => Err(format!("found `{word}`; expected host or simulated")),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Side::Host => "host",
            Side::Simulated => "simulated",
        }
    }
}

/// Fills all blocks from the results in a directory, and writes the plots that they show.
pub fn run(root: &Path, results: &Path) -> Result<(), String> {
    let mut filler = Filler { results: results.to_owned(), plots: BTreeMap::new() };
    let mut filled = Vec::new();
    for path in chapters(root)? {
        let text = fs::read_to_string(root.join(&path)).map_err(|error| format!("{path} cannot be read: {error}"))?;
        let made =
            blocks::fill(&text, |request| filler.made(&path, request)).map_err(|why| format!("{path}: {why}"))?;
        filled.push((path, made));
    }
    for (path, text) in &filled {
        fs::write(root.join(path), text).map_err(|error| format!("{path} cannot be written: {error}"))?;
    }
    for (name, svg) in &filler.plots {
        let path = format!("{FOLDER}/{name}");
        fs::write(root.join(&path), svg).map_err(|error| format!("{path} cannot be written: {error}"))?;
    }
    let gone = remove_others(&root.join(FOLDER), &filler.plots)?;
    println!("measured: {} chapters filled, {} plots written, {gone} removed", filled.len(), filler.plots.len());
    Ok(())
}

/// The chapters that there are.
fn chapters(root: &Path) -> Result<Vec<String>, String> {
    let folder = fs::read_dir(root.join(FOLDER)).map_err(|error| format!("{FOLDER} cannot be read: {error}"))?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let in_folder = names.filter(|name| name.ends_with(".md")).map(|name| format!("{FOLDER}/{name}"));
    let mut all: Vec<String> = in_folder.chain(CHAPTERS.map(str::to_owned)).collect();
    all.retain(|path| root.join(path).is_file());
    all.sort();
    Ok(all)
}

/// Plots that no block shows any more go away.
fn remove_others(folder: &Path, plots: &BTreeMap<String, String>) -> Result<usize, String> {
    let mut count = 0;
    let entries = fs::read_dir(folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_plot = plot::was_made_here(&name) && path.extension().is_some_and(|extension| extension == "svg");
        if is_plot && !plots.contains_key(&name) {
            fs::remove_file(&path).map_err(|error| format!("{} cannot be removed: {error}", path.display()))?;
            count += 1;
        }
    }
    Ok(count)
}

/// What blocks are filled with.
struct Filler {
    results: PathBuf,
    /// Plots that were shown, by their files' names.
    plots: BTreeMap<String, String>,
}

impl Filler {
    fn made(&mut self, chapter: &str, request: &str) -> Result<String, String> {
        let words: Vec<&str> = request.split(';').map(str::trim).collect();
        let (name, rest) = words.split_first().ok_or("a block says what it shows")?;
        let text = match (*name, rest) {
            ("validate", [what]) => validate::table(&self.results.join("validate.json"), what)?,
            (_, []) => table::summary(&self.outcomes(name)?, &self.pages(name)?)?,
            (_, [kind, title]) if kind.starts_with("plot ") => {
                let side = Side::of(&kind["plot ".len()..])?;
                self.plot(chapter, name, side, title)?
            }
            (_, [kind, heading]) if kind.starts_with("table ") => {
                let side = Side::of(&kind["table ".len()..])?;
                table::of_page(self.page(name, side)?.table(heading)?)
            }
            (_, [metric, parameters @ ..]) => table::of_metric(&self.outcomes(name)?, metric, parameters)?,
        };
        tells_no_path(&text)?;
        Ok(text)
    }

    /// A link to a plot, which is written then.
    fn plot(&mut self, chapter: &str, name: &str, side: Side, title: &str) -> Result<String, String> {
        let page = self.page(name, side)?;
        let svg = plot::alone(page.plot(title)?, page.colours())?;
        tells_no_path(&svg)?;
        let file = plot::file_name(name, side, title);
        self.plots.insert(file.clone(), svg);
        let folder = if chapter.starts_with(FOLDER) { "" } else { "experiments/" };
        let how = match side {
            Side::Host => "; measured here",
            Side::Simulated if title.contains("simulated") => "",
            Side::Simulated => "; simulated",
        };
        Ok(format!("![{title}{how}]({folder}{file})"))
    }

    /// What was measured here, and what was simulated.
    fn outcomes(&self, name: &str) -> Result<[Outcome; 2], String> {
        let read = |side: Side| Outcome::read(&self.results.join(side.word()).join(format!("{name}.json")), name, side);
        Ok([read(Side::Host)?, read(Side::Simulated)?])
    }

    fn pages(&self, name: &str) -> Result<[Page; 2], String> {
        Ok([self.page(name, Side::Host)?, self.page(name, Side::Simulated)?])
    }

    /// A forecast is of no machine that is here, and has one page.
    fn page(&self, name: &str, side: Side) -> Result<Page, String> {
        let folder = match name {
            "forecast" => self.results.join(name),
            _ => self.results.join(side.word()).join(format!("report-{name}")),
        };
        Page::read(&folder.join("index.html"))
    }
}

/// Directories that exist on somebody's machine only.
const PLACES: [&str; 5] = ["farm", "home", "root", "tmp", "work"];

fn tells_no_path(text: &str) -> Result<(), String> {
    let tells = |word: &&str| {
        let path = word.trim_start_matches(['`', '(', '"', '\'']);
        PLACES.iter().any(|place| path.strip_prefix('/').is_some_and(|path| path.split('/').next() == Some(*place)))
    };
    match text.split([' ', '\n', '=', ',', '>']).find(tells) {
        Some(path) => Err(format!("found the path {path}; expected nothing that only this machine has")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_machine_are_refused() {
        for place in PLACES {
            for text in [
                format!("see `/{place}/x/y`"),
                format!("--json=/{place}/x"),
                format!("<text>/{place}/x"),
                format!("a\n/{place}"),
            ] {
                assert!(tells_no_path(&text).is_err(), "{text}");
            }
        }
        for text in ["fork of /bin/true", "1/2", "| a/tmp |", "/tmpfs", "/proc/interrupts"] {
            assert_eq!(tells_no_path(text), Ok(()), "{text}");
        }
    }

    /// A directory with results of an experiment `kicks`, and a root with a chapter.
    fn planted(chapter: &str) -> (PathBuf, PathBuf) {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("measured-{}-{number}", std::process::id()));
        let (root, results) = (folder.join("tree"), folder.join("results"));
        for side in [Side::Host, Side::Simulated] {
            let report = results.join(side.word()).join("report-kicks");
            fs::create_dir_all(&report).unwrap();
            fs::write(report.join("index.html"), page::example()).unwrap();
            fs::write(results.join(side.word()).join("kicks.json"), result::example(side)).unwrap();
        }
        fs::create_dir_all(root.join(FOLDER)).unwrap();
        fs::write(root.join(FOLDER).join("kicks.md"), chapter).unwrap();
        (root, results)
    }

    const CHAPTER: &str = "# Kicks\n<!-- measured kicks -->\n<!-- end of measured -->\n\
        <!-- measured kicks; interrupts; groups=10000 -->\nof yesterday\n<!-- end of measured -->\n\
        <!-- measured kicks; plot host; first object -->\n<!-- end of measured -->\n";

    #[test]
    fn a_chapter_is_filled_and_filled_again() {
        let (root, results) = planted(CHAPTER);
        fs::write(root.join(FOLDER).join("kicks-host-gone.svg"), "").unwrap();
        fs::write(root.join(FOLDER).join("drawing.svg"), "").unwrap();
        run(&root, &results).unwrap();
        let read = || fs::read_to_string(root.join(FOLDER).join("kicks.md")).unwrap();
        let text = read();
        assert!(
            text.contains("| kick on create |")
                && text.contains("40000 of 10000; that is 5.000, band 4.5 to 5.5 |")
                && text.contains("47,741")
                && !text.contains("yesterday"),
            "{text}"
        );
        assert!(!text.contains("| kick on create again |") && text.contains("differs from itself by 0.9 ×"), "{text}");
        assert!(text.contains("![first object; measured here](kicks-host-first-object.svg)"), "{text}");
        let svg = fs::read_to_string(root.join(FOLDER).join("kicks-host-first-object.svg")).unwrap();
        assert!(svg.contains("fill=\"#ffffff\"") && !svg.contains("var("), "{svg}");
        assert!(!root.join(FOLDER).join("kicks-host-gone.svg").exists(), "nobody shows it any more");
        assert!(root.join(FOLDER).join("drawing.svg").exists(), "it was not made here");
        run(&root, &results).unwrap();
        assert_eq!(read(), text, "the same again");
    }

    #[test]
    fn what_is_missing_or_of_another_form_is_told_and_nothing_is_written() {
        let told = |chapter: &str, spoil: &dyn Fn(&Path)| {
            let (root, results) = planted(chapter);
            spoil(&results);
            let why = run(&root, &results).unwrap_err();
            assert_eq!(fs::read_to_string(root.join(FOLDER).join("kicks.md")).unwrap(), chapter);
            why
        };
        let nothing = |_: &Path| {};
        let why = told(CHAPTER, &|results| fs::remove_file(results.join("simulated/kicks.json")).unwrap());
        assert!(why.contains("simulated/kicks.json") && why.contains("--cpus"), "{why}");
        let why = told(CHAPTER, &|results| fs::write(results.join("host/kicks.json"), "").unwrap());
        assert!(why.contains("host/kicks.json") && why.contains("JSON"), "{why}");
        let why =
            told(CHAPTER, &|results| fs::write(results.join("host/kicks.json"), "{\"experiment\":\"grace\"}").unwrap());
        assert!(why.contains("grace"), "{why}");
        let place = format!("/{}/report", PLACES[0]);
        for (from, to) in
            [("47741 of", format!("{place} of")), ("\nfirst object\n", format!("\nfirst object\n</text><text>{place}"))]
        {
            let page = page::example().replace(from, &to);
            let why = told(CHAPTER, &|results| fs::write(results.join("host/report-kicks/index.html"), &page).unwrap());
            assert!(why.contains(&place), "{why}");
        }
        let why = told("<!-- measured kicks; kiks -->\n<!-- end of measured -->\n", &nothing);
        assert!(why.contains("kiks") && why.contains("interrupts"), "{why}");
        let why = told("<!-- measured kicks; interrupts; groups=7 -->\n<!-- end of measured -->\n", &nothing);
        assert!(why.contains("groups=7"), "{why}");
        let why = told("<!-- measured kicks; plot host; no such -->\n<!-- end of measured -->\n", &nothing);
        assert!(why.contains("no such") && why.contains("first object"), "{why}");
        let why = told("<!-- measured kicks; plot here; first object -->\n<!-- end of measured -->\n", &nothing);
        assert!(why.contains("`here`"), "{why}");
    }

    /// The committed book: each block is filled, each plot is there, and none is left over.
    #[test]
    fn the_book_is_filled() {
        let root = crate::root();
        let mut shown = Vec::new();
        for path in chapters(&root).unwrap() {
            let text = fs::read_to_string(root.join(&path)).unwrap();
            let mut count = 0;
            let same = blocks::fill(&text, |_| {
                count += 1;
                Ok(String::new())
            });
            let empty = same.unwrap_or_else(|why| panic!("{path}: {why}"));
            assert!(
                count == 0 || empty.len() + 20 * count < text.len(),
                "{path} has an empty block: cargo xtask measured DIR"
            );
            shown.extend(text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned));
        }
        for entry in fs::read_dir(root.join(FOLDER)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_shown = shown.iter().any(|link| link.ends_with(&name));
            assert!(!plot::was_made_here(&name) || is_shown, "{name} is shown nowhere: cargo xtask measured DIR");
        }
        for link in shown.iter().filter(|link| link.ends_with(".svg")) {
            let name = link.rsplit('/').next().unwrap();
            assert!(root.join(FOLDER).join(name).is_file(), "{link} is not there: cargo xtask measured DIR");
        }
    }
}
