//! Names in an ELF file: from its debug information, from a debug file of its own, and from its tables of symbols.
//!
//! Only what is needed is read: tables of symbols are passed over once, and units of DWARF are parsed when an address
//! falls into them.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SegmentFlags, SymbolKind, elf::PF_X};

use crate::mangled;

/// A function at an address, and the line there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The function's name for the linker, or the name in its source.
    pub name: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
    /// The column, or 0.
    pub column: u32,
}

/// An ELF file.
pub struct Binary {
    path: PathBuf,
    /// Its build id in hexadecimal digits; empty if it has none.
    pub build_id: String,
    segments: Vec<Segment>,
    has_debug_info: bool,
    /// The file that this one says its debug information shares, absolute, if it exists.
    shared: Option<PathBuf>,
}

/// Bytes of the file, and the address that the linker gave them.
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
    is_code: bool,
}

impl Binary {
    /// Reads the file's headers.
    pub fn open(path: &Path) -> Result<Self> {
        // To open something else may wait for ever.
        ensure!(path.metadata()?.is_file(), "is no file");
        let data = ReadCache::new(File::open(path)?);
        let file = object::File::parse(&data).context("is no ELF file")?;
        let segment = |of: object::Segment<'_, '_, &ReadCache<File>>| {
            let (offset, bytes) = of.file_range();
            let is_code = matches!(of.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
            Segment { offset, bytes, address: of.address(), is_code }
        };
        let build_id = file.build_id().ok().flatten().map(hexadecimal).unwrap_or_default();
        let has_debug_info = [".debug_info", ".zdebug_info"].iter().any(|name| {
            file.section_by_name(name).is_some_and(|section| section.file_range().is_some_and(|(_, bytes)| bytes > 0))
        });
        let shared = shared(path, &file);
        Ok(Self {
            path: path.to_owned(),
            build_id,
            segments: file.segments().map(segment).collect(),
            has_debug_info,
            shared,
        })
    }

    /// The linker's address of what lies at this offset of the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let has = |of: &&Segment| offset.checked_sub(of.offset).is_some_and(|within| within < of.bytes);
        let all = || self.segments.iter().filter(has);
        let segment = all().find(|of| of.is_code).or_else(|| all().next())?;
        (offset - segment.offset).checked_add(segment.address)
    }

    /// The functions at each of these addresses, which are sorted; inlined ones first. Also says if debug information was
    /// damaged. It may be in a file of this folder.
    pub fn places(&self, addresses: &[u64], debug_files: &Path) -> (HashMap<u64, Vec<Place>>, Option<String>) {
        let debug = self.debug_file(debug_files);
        let (mut places, damage) = match debug.as_ref().or(Some(self)).filter(|file| file.has_debug_info) {
            Some(file) => match file.by_debug_info(addresses) {
                Ok(places) => (places, None),
                Err(why) => (HashMap::new(), Some(format!("{}: {why}", file.path.display()))),
            },
            None => (HashMap::new(), None),
        };
        // Some compilers leave out the names of namespaces and modules. The linker's names have them.
        let is_short = |places: &HashMap<u64, Vec<Place>>, address: &u64| {
            places.get(address).and_then(|all| all.last()).is_none_or(|place| !mangled::is_mangled(&place.name))
        };
        for file in debug.iter().chain([self]) {
            let rest: Vec<u64> = addresses.iter().copied().filter(|address| is_short(&places, address)).collect();
            for (address, name) in file.by_symbols(&rest).unwrap_or_default() {
                let all = places.entry(address).or_default();
                match all.last_mut() {
                    Some(place) if place.name.is_empty() || mangled::is_longer(&name, &place.name) => place.name = name,
                    Some(_) => {}
                    None => all.push(Place { name, ..Place::default() }),
                }
            }
        }
        places.retain(|_, all| {
            all.retain(|place| !place.name.is_empty());
            !all.is_empty()
        });
        (places, damage)
    }

    /// The debug file that was split off from this one, unless this one has debug information itself.
    fn debug_file(&self, folder: &Path) -> Option<Self> {
        let (first, rest) = self.build_id.split_at_checked(2).filter(|_| !self.has_debug_info)?;
        let file = Self::open(&folder.join(first).join(format!("{rest}.debug"))).ok()?;
        (file.build_id == self.build_id).then_some(file)
    }

    fn by_debug_info(&self, addresses: &[u64]) -> Result<HashMap<u64, Vec<Place>>, Box<dyn Error>> {
        let loader = Loader::new_with_sup(&self.path, self.shared.as_ref())?;
        let places = addresses.iter().map(|&address| (address, frames(&loader, address).unwrap_or_default()));
        Ok(places.collect())
    }

    /// The names of the functions that cover these addresses, from the table of all symbols and from that of exports.
    fn by_symbols(&self, addresses: &[u64]) -> Result<HashMap<u64, String>> {
        let data = ReadCache::new(File::open(&self.path)?);
        let file = object::File::parse(&data)?;
        let mut names = cover(addresses, file.symbols());
        let rest: Vec<u64> = addresses.iter().copied().filter(|address| !names.contains_key(address)).collect();
        names.extend(cover(&rest, file.dynamic_symbols()));
        Ok(names)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that several debug files share, by its path and its build id.
fn shared<'data>(path: &Path, file: &object::File<'data, &'data ReadCache<File>>) -> Option<PathBuf> {
    let (name, build_id) = file.gnu_debugaltlink().ok().flatten()?;
    let path = path.canonicalize().ok()?.parent()?.join(std::str::from_utf8(name).ok()?);
    let data = ReadCache::new(File::open(&path).ok()?);
    let is_it = object::File::parse(&data).ok()?.build_id().ok().flatten() == Some(build_id);
    is_it.then_some(path)
}

/// The functions at an address by debug information, inlined ones first.
fn frames(loader: &Loader, address: u64) -> Option<Vec<Place>> {
    let mut frames = loader.find_frames(address).ok()?;
    let mut places = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.and_then(|of| of.raw_name().map(|name| name.into_owned()).ok());
        let location = frame.location.as_ref();
        places.push(Place {
            name: name.unwrap_or_default(),
            file: location.and_then(|of| of.file).unwrap_or_default().to_owned(),
            line: location.and_then(|of| of.line).unwrap_or_default(),
            column: location.and_then(|of| of.column).unwrap_or_default(),
        });
    }
    Some(places)
}

/// The names of the symbols that cover these addresses. A symbol without a size covers nothing: a name that may be
/// that of another function is worse than none.
fn cover<'data, S: ObjectSymbol<'data>>(addresses: &[u64], symbols: impl Iterator<Item = S>) -> HashMap<u64, String> {
    let mut names: HashMap<u64, (Rank, String)> = HashMap::new();
    for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition()) {
        let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
        let first = addresses.partition_point(|&address| address < start);
        let covered = addresses[first..].iter().take_while(|&&address| address < end);
        for &address in covered {
            let Ok(name) = symbol.name() else { continue };
            let rank = rank(&symbol, name);
            if !name.is_empty() && names.get(&address).is_none_or(|(other, _)| rank < *other) {
                names.insert(address, (rank, name.to_owned()));
            }
        }
    }
    names.into_iter().map(|(address, (_, name))| (address, name)).collect()
}

/// The least is the best: the innermost symbol, then one that is exported, then the one that looks most public.
type Rank = (u64, bool, usize, usize, String);

fn rank<'data>(symbol: &impl ObjectSymbol<'data>, name: &str) -> Rank {
    let underscores = name.len() - name.trim_start_matches('_').len();
    (symbol.size(), symbol.is_local(), underscores, name.len(), name.to_owned())
}
