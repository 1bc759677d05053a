//! An index of words, as a service that handles text keeps: a hash map from strings to growing
//! lists, with entries that come and go, and strings joined, split and sorted. All through std's
//! collections.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use programs::{Rng, answer, mix};

/// std's own hasher without its random keys: the order of the map is part of the answer.
type Index = HashMap<String, Vec<u32>, BuildHasherDefault<DefaultHasher>>;

const DOCUMENTS: u32 = 48_000;
const WORDS: usize = 60;
const VOCABULARY: u32 = 40_000;

fn main() {
    let mut rng = Rng::with_seed(8);
    let mut index = Index::default();
    let mut sum = 0;
    for document in 0..DOCUMENTS {
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
    answer(summary(&index).bytes().fold(sum, |sum, byte| mix(sum, u64::from(byte))));
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
