//! A plot by itself: a page's picture with the page's colours by day and a white ground, so that it can be read in every theme of the book.

use std::collections::BTreeMap;

use super::Side;

const GROUND: &str = "#ffffff";
const MARGIN: u32 = 8;

/// The picture as a file.
pub fn alone(svg: &str, colours: &BTreeMap<String, String>) -> Result<String, String> {
    let (head, rest) = svg.split_once('>').ok_or("found a plot without a tag; expected SVG")?;
    let size = head.split_once("viewBox=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or("");
    let size: Vec<&str> = size.split(' ').collect();
    let [_, _, width, height] = size[..] else {
        return Err("found a plot without a viewBox of four numbers; expected one".to_owned());
    };
    let number =
        |text: &str| text.parse::<u32>().map_err(|_| format!("found a plot of size {text}; expected a whole number"));
    // With a margin, as letters at an edge are wider in some fonts.
    let (width, height) = (number(width)? + 2 * MARGIN, number(height)? + 2 * MARGIN);
    let view = format!("-{MARGIN} -{MARGIN} {width} {height}");
    let head = head.replacen(&size.join(" "), &view, 1);
    let ground =
        format!("<rect x=\"-{MARGIN}\" y=\"-{MARGIN}\" width=\"{width}\" height=\"{height}\" fill=\"{GROUND}\"/>");
    let mut text = format!("{head} width=\"{width}\" height=\"{height}\">\n{ground}{rest}\n");
    if !head.contains("xmlns") {
        text = text.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    }
    for (name, colour) in colours {
        text = text.replace(&format!("var(--{name})"), colour);
    }
    match text.split_once("var(--") {
        Some((_, rest)) => Err(format!("the page's style has no colour --{}", rest.split(')').next().unwrap_or(""))),
        None => Ok(text),
    }
}

/// What it is called: the experiment, where it was measured, and its title.
pub fn file_name(experiment: &str, side: Side, title: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let title: String = title.chars().map(word).collect();
    let words: Vec<&str> = title.split_whitespace().collect();
    format!("{experiment}-{}-{}.svg", side.word(), words.join("-"))
}

/// Whether a file is called so.
pub fn was_made_here(name: &str) -> bool {
    let side = name.split('-').nth(1);
    name.ends_with(".svg") && side.is_some_and(|side| Side::of(side).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg role=\"img\" viewBox=\"0 0 480 280\" xmlns=\"http://www.w3.org/2000/svg\"><text fill=\"var(--ink)\">a</text></svg>";

    #[test]
    fn a_plot_stands_on_white_in_the_colours_of_the_day() {
        let colours = BTreeMap::from([("ink".to_owned(), "#1b1f24".to_owned())]);
        let alone = alone(SVG, &colours).unwrap();
        assert!(alone.starts_with("<svg role=\"img\" viewBox=\"-8 -8 496 296\"") && alone.ends_with("</svg>\n"));
        let (ground, ink) = (alone.find(GROUND).unwrap(), alone.find("#1b1f24").unwrap());
        assert!(ground < ink, "the ground is below");
        assert!(alone.contains("width=\"496\" height=\"296\">"), "a book shows it in its size");
    }

    #[test]
    fn colours_and_sizes_that_are_missing_are_told() {
        assert!(alone(SVG, &BTreeMap::new()).unwrap_err().contains("--ink"));
        assert!(alone("<svg viewBox=\"0 0 a 1\"></svg>", &BTreeMap::new()).unwrap_err().contains("size a"));
        assert!(alone("<svg><text/></svg>", &BTreeMap::new()).unwrap_err().contains("viewBox"));
    }

    #[test]
    fn names_are_words() {
        let name = file_name("counters", Side::Host, "Set-up, by possible CPUs (2)");
        assert_eq!(name, "counters-host-set-up-by-possible-cpus-2.svg");
        assert!(was_made_here(&name) && was_made_here("grace-simulated-x.svg"));
        assert!(!was_made_here("grid.svg") && !was_made_here("grace-period.svg") && !was_made_here("x-host-y.md"));
    }
}
