//! Two-level logic minimization in the manner of espresso: covers are lists of cubes, each a small bit set in a block
//! of its own, and the recursion makes and drops them at a great rate.
//!
//! It complements random covers by Shannon expansion: pick the variable that most cubes depend on, complement both
//! cofactors, and merge. A cube holds two bits for each variable: which of its values it admits. glibc's malloc and
//! free take nearly half of its time.

use fastrand::Rng;

use crate::checksum::mix;
use crate::scale::Scale;

type Cube = Box<[u32]>;
type Cover = Vec<Cube>;

const VARIABLES_PER_WORD: usize = 16;
const COVERS: u64 = 2400;
const CUBES: usize = 20;
const LITERALS: usize = 5;
/// Cubes get wider than their variables need, so that several size classes are met.
const WORDS: [usize; 4] = [2, 4, 6, 10];
const VARIABLES: usize = 14;

/// Runs it: the cubes of all complements.
pub fn run(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(7);
    let mut sum = 0;
    for round in 0..scale.of(COVERS) {
        let words = WORDS[round as usize % WORDS.len()];
        let cover = random_cover(&mut rng, words);
        let complement = complement(&cover, words);
        sum = mix(sum, complement.len() as u64);
        sum = complement.iter().flat_map(|cube| cube.iter()).fold(sum, |sum, &word| mix(sum, u64::from(word)));
    }
    sum
}

fn random_cover(rng: &mut Rng, words: usize) -> Cover {
    (0..CUBES)
        .map(|_| {
            let mut cube = universe(words);
            for _ in 0..LITERALS {
                restrict(&mut cube, rng.usize(0..VARIABLES), rng.bool());
            }
            cube
        })
        .collect()
}

/// The cubes of what `cover` leaves out.
fn complement(cover: &Cover, words: usize) -> Cover {
    if cover.is_empty() {
        return vec![universe(words)];
    }
    if cover.iter().any(|cube| cube.iter().all(|&word| word == u32::MAX)) {
        return Vec::new();
    }
    let variable = most_dependent(cover);
    let mut result = Cover::new();
    for value in [false, true] {
        let part = complement(&without_contained(cofactor(cover, variable, value)), words);
        result.extend(part.into_iter().map(|mut cube| {
            restrict(&mut cube, variable, value);
            cube
        }));
    }
    merged(result, variable)
}

/// What `cover` becomes where `variable` has `value`; cubes that don't admit the value vanish.
fn cofactor(cover: &Cover, variable: usize, value: bool) -> Cover {
    cover
        .iter()
        .filter(|cube| admits(cube, variable, value))
        .map(|cube| {
            let mut cube = cube.clone();
            cube[variable / VARIABLES_PER_WORD] |= mask(variable, false) | mask(variable, true);
            cube
        })
        .collect()
}

/// Drops cubes that an earlier one contains.
fn without_contained(cover: Cover) -> Cover {
    let mut result = Cover::with_capacity(cover.len());
    for cube in cover {
        if !result.iter().any(|other| contains(other, &cube)) {
            result.push(cube);
        }
    }
    result
}

/// Joins pairs of cubes that differ in `variable` only.
fn merged(cover: Cover, variable: usize) -> Cover {
    let mut result = Cover::with_capacity(cover.len());
    for cube in cover {
        let mut free = cube.clone();
        free[variable / VARIABLES_PER_WORD] |= mask(variable, false) | mask(variable, true);
        match result.iter_mut().find(|other| union(other, &cube) == free) {
            Some(other) => *other = free,
            None => result.push(cube),
        }
    }
    result
}

fn union(one: &Cube, other: &Cube) -> Cube {
    one.iter().zip(other).map(|(a, b)| a | b).collect()
}

/// The variable that the most cubes depend on, the first of equals.
fn most_dependent(cover: &Cover) -> usize {
    let dependent =
        |variable| cover.iter().filter(|cube| !(admits(cube, variable, false) && admits(cube, variable, true))).count();
    (0..VARIABLES).rev().max_by_key(|&variable| dependent(variable)).expect("there are variables")
}

fn universe(words: usize) -> Cube {
    vec![u32::MAX; words].into()
}

fn restrict(cube: &mut Cube, variable: usize, value: bool) {
    cube[variable / VARIABLES_PER_WORD] &= !mask(variable, !value);
}

fn admits(cube: &Cube, variable: usize, value: bool) -> bool {
    cube[variable / VARIABLES_PER_WORD] & mask(variable, value) != 0
}

fn contains(outer: &Cube, inner: &Cube) -> bool {
    outer.iter().zip(inner).all(|(a, b)| a | b == *a)
}

fn mask(variable: usize, value: bool) -> u32 {
    1 << (2 * (variable % VARIABLES_PER_WORD) + usize::from(value))
}
