//! An index of words, as a service that handles text keeps: a hash map from strings to growing lists, with entries that
//! come and go, and strings joined, split and sorted. All through std's collections. glibc's malloc and free take a
//! quarter of its time.

use fastrand::Rng;

use crate::checksum::{mix, mix_bytes};
use crate::map::Map;
use crate::scale::Scale;

type Index = Map<String, Vec<u32>>;

const DOCUMENTS: u64 = 24_000;
const WORDS: usize = 60;
const VOCABULARY: u32 = 40_000;

/// Runs it: what was removed from the index, and what is in it at the end.
pub fn run(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(8);
    let mut index = Index::default();
    let mut sum = 0;
    for document in 0..scale.of(DOCUMENTS) as u32 {
        let text = compose(&mut rng);
        for word in text.split(' ') {
            index.entry(word.to_owned()).or_default().push(document);
        }
        for _ in 0..WORDS / 4 {
            if let Some(documents) = index.remove(&word(&mut rng)) {
                sum = mix(sum, documents.len() as u64);
            }
        }
    }
    mix_bytes(sum, summary(&index).as_bytes())
}

/// A text of random words; few of them are frequent.
fn compose(rng: &mut Rng) -> String {
    let words: Vec<String> = (0..WORDS).map(|_| word(rng)).collect();
    words.join(" ")
}

fn word(rng: &mut Rng) -> String {
    let rank = rng.u32(1..VOCABULARY);
    let number = rng.u32(0..rank);
    format!("{}{number:x}", &"abcdefghijklmnopqrstuvwxyz"[..1 + (number % 26) as usize])
}

/// Lines of words and where they stand, sorted.
fn summary(index: &Index) -> String {
    let mut lines: Vec<String> = index
        .iter()
        .map(|(word, documents)| {
            let documents: Vec<String> = documents.iter().map(u32::to_string).collect();
            format!("{word}: {}", documents.join(", "))
        })
        .collect();
    lines.sort();
    lines.join("\n")
}
