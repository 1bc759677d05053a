//! Drops the allocator's own frames, so that a stack begins at the program's call.
//!
//! The library's frames are known by its file, also without names. In a program that links the allocator they are known
//! by the names of functions, and so are the layers of C++ and Rust between a program and its allocator.

use std::collections::{HashMap, HashSet};

use crate::proto::{Function, Location, Profile};

/// How the names of files begin that hold the library.
const LIBRARY: &str = "libcommensal";

/// How functions of allocators begin. Those with a `!` are that name and no longer one.
const FUNCTIONS: [&str; 37] = [
    "commensal::",
    "<commensal::",
    "commensal_runtime::",
    "<commensal_runtime::",
    "commensal_host::",
    "<commensal_host::",
    "cm_",
    "!malloc",
    "!calloc",
    "!realloc",
    "!reallocarray",
    "!aligned_alloc",
    "!memalign",
    "!posix_memalign",
    "!valloc",
    "!pvalloc",
    "!__libc_malloc",
    "!__libc_calloc",
    "!__libc_realloc",
    "!__libc_memalign",
    "!operator new",
    "!operator new[]",
    "std::__new_allocator<",
    "__gnu_cxx::new_allocator<",
    "std::allocator<",
    "std::allocator_traits<",
    "std::__allocate_guarded<",
    "alloc::alloc::",
    "<alloc::alloc::",
    "alloc::raw_vec::",
    "<alloc::raw_vec::",
    "core::alloc::",
    "<core::alloc::",
    "__rust_",
    "__rustc::",
    "__rdl_",
    "__rg_",
];

/// Rust's own sources that do nothing but allocate: names of inlined functions may be without modules.
const FILES: [&str; 2] = ["/library/alloc/src/alloc.rs", "/library/alloc/src/raw_vec"];

fn is_allocator(function: &str) -> bool {
    FUNCTIONS.iter().any(|name| match name.strip_prefix('!') {
        Some(whole) => function == whole,
        None => function.starts_with(name),
    })
}

/// Drops the innermost frames of each stack that are the allocator's. If there are no others, keeps the outermost.
pub fn allocator_frames(profile: &mut Profile) {
    let mut trimmer = Trimmer::new(profile);
    for index in 0..profile.sample.len() {
        let stack = std::mem::take(&mut profile.sample[index].location_id);
        profile.sample[index].location_id = trimmer.trimmed(profile, stack);
    }
}

struct Trimmer {
    /// Mappings of the library.
    library: HashSet<u64>,
    /// The names of functions and their sources.
    functions: HashMap<u64, [String; 2]>,
    /// Where locations lie in the profile.
    places: HashMap<u64, usize>,
    /// Locations without their first lines, by how many these are.
    shorter: HashMap<(u64, usize), u64>,
    next: u64,
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Allocator,
    /// The allocator's if such a frame is further out, else the program's.
    Below,
    Program,
}

impl Trimmer {
    fn new(profile: &Profile) -> Self {
        let is_library =
            |filename: i64| profile.string(filename).rsplit('/').next().is_some_and(|name| name.starts_with(LIBRARY));
        let library = profile.mapping.iter().filter(|of| is_library(of.filename)).map(|of| of.id).collect();
        let texts = |of: &Function| [of.name, of.filename].map(|text| profile.string(text));
        let functions = profile.function.iter().map(|of| (of.id, texts(of))).collect();
        let places = profile.location.iter().enumerate().map(|(index, of)| (of.id, index)).collect();
        Self { library, functions, places, shorter: HashMap::new(), next: 1 }
    }

    fn kind(&self, location: &Location, line: usize) -> Kind {
        let function = location.line.get(line).and_then(|line| self.functions.get(&line.function_id));
        let [name, file] = function.map_or([""; 2], |texts| [&texts[0], &texts[1]]);
        let is_inlined_without_module = line + 1 < location.line.len() && file.ends_with(".rs") && !name.contains("::");
        match () {
            () if self.library.contains(&location.mapping_id) || is_allocator(name) => Kind::Allocator,
            () if FILES.iter().any(|source| file.contains(source)) => Kind::Allocator,
            () if is_inlined_without_module => Kind::Below,
            () => Kind::Program,
        }
    }

    /// The stack from the program's call on.
    fn trimmed(&mut self, profile: &mut Profile, stack: Vec<u64>) -> Vec<u64> {
        let mut frames = Vec::new();
        for (depth, id) in stack.iter().enumerate() {
            let location = &profile.location[self.places[id]];
            let lines = 0..location.line.len().max(1);
            frames.extend(lines.map(|line| (depth, line, self.kind(location, line))));
        }
        let inner = frames.iter().position(|(.., kind)| *kind == Kind::Program).unwrap_or(frames.len());
        let last = frames[..inner].iter().rposition(|(.., kind)| *kind == Kind::Allocator);
        let Some(last) = last else { return stack };
        let (depth, line, _) = frames[(last + 1).min(frames.len() - 1)];
        let mut rest = stack[depth..].to_vec();
        if line > 0 {
            rest[0] = self.shorter(profile, rest[0], line);
        }
        rest
    }

    /// The location without its first lines, as a location of its own: elsewhere it may be within a stack.
    fn shorter(&mut self, profile: &mut Profile, id: u64, lines: usize) -> u64 {
        if let Some(&known) = self.shorter.get(&(id, lines)) {
            return known;
        }
        let mut location = profile.location[self.places[&id]].clone();
        location.line.drain(..lines);
        while self.places.contains_key(&self.next) {
            self.next += 1;
        }
        let new = self.next;
        location.id = new;
        self.places.insert(new, profile.location.len());
        profile.location.push(location);
        self.shorter.insert((id, lines), new);
        new
    }
}
