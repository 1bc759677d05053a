//! Gives a profile its names: functions, lines and inlined frames at the addresses of its locations.
//!
//! An address in a mapping is an offset in a file. The file's segments say at which address the linker put that, and the
//! file's debug information and symbols are by the linker's addresses. A file of another build would give wrong names, so
//! its names are not used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use crate::elf::{Binary, Place};
use crate::mangled;
use crate::proto::{Function, Line, Mapping, Profile, Strings};

/// Where systems put debug files that were split off, by build id.
pub const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";

/// What the kernel appends to the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// Names all locations that have no lines, with the help of the debug files in a folder. Says which files could not be
/// used.
pub fn add(profile: &mut Profile, debug_files: &Path) -> Vec<String> {
    assign_mappings(profile);
    let mappings: HashMap<u64, Mapping> = profile.mapping.iter().map(|of| (of.id, *of)).collect();
    // The file and its build id, the mappings of it, and which locations lie there at which offsets.
    let mut files: BTreeMap<(String, String), Vec<(usize, u64)>> = BTreeMap::new();
    for (index, location) in profile.location.iter().enumerate().filter(|(_, of)| of.line.is_empty()) {
        let Some(mapping) = mappings.get(&location.mapping_id) else { continue };
        if let Some(offset) = offset(mapping, location.address) {
            let file = (profile.string(mapping.filename), profile.string(mapping.build_id));
            files.entry(file).or_default().push((index, offset));
        }
    }
    let (mut adding, mut warnings) = (Adding::new(profile), Vec::new());
    // What is no path is memory without a file, such as [vdso].
    for ((file, build_id), locations) in files.iter().filter(|((file, _), _)| file.starts_with('/')) {
        match open(file, build_id) {
            Ok(binary) => warnings.extend(name(profile, &mut adding, &binary, locations, debug_files)),
            Err(why) => warnings.push(format!("{file}: {why}; its functions are shown as offsets")),
        }
    }
    warnings
}

/// The place in the mapping's file of an address in a call.
pub fn offset(mapping: &Mapping, address: u64) -> Option<u64> {
    address.checked_sub(mapping.memory_start)?.checked_add(mapping.file_offset)
}

/// Finds the mapping of locations that name none.
fn assign_mappings(profile: &mut Profile) {
    let mappings = &profile.mapping;
    for location in profile.location.iter_mut().filter(|of| of.mapping_id == 0) {
        let call = location.address;
        let mapping = mappings.iter().find(|of| (of.memory_start..of.memory_limit).contains(&call));
        location.mapping_id = mapping.map_or(0, |of| of.id);
    }
}

/// Opens the file if it is of this build.
fn open(file: &str, build_id: &str) -> Result<Binary, String> {
    let path = file.strip_suffix(DELETED).unwrap_or(file);
    let binary = Binary::open(Path::new(path)).map_err(|error| match error.downcast_ref::<io::Error>() {
        Some(error) => format!("cannot be read ({error})"),
        None => format!("{error:#}"),
    })?;
    if binary.build_id.eq_ignore_ascii_case(build_id) || (build_id.is_empty() && path == file) {
        return Ok(binary);
    }
    let id = |id: &str| if id.is_empty() { "none".to_owned() } else { id.to_owned() };
    Err(format!(
        "is another build than the one that ran: its build id is {}, expected {}",
        id(&binary.build_id),
        id(build_id)
    ))
}

/// Names locations of one file. Says if debug information was damaged.
fn name(
    profile: &mut Profile, adding: &mut Adding, file: &Binary, locations: &[(usize, u64)], debug_files: &Path,
) -> Option<String> {
    let addresses: Vec<(usize, u64)> =
        locations.iter().filter_map(|(index, offset)| Some((*index, file.address(*offset)?))).collect();
    let mut sorted: Vec<u64> = addresses.iter().map(|(_, address)| *address).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let (places, damage) = file.places(&sorted, debug_files);
    let mut named: HashMap<u64, [bool; 3]> = HashMap::new();
    for (index, address) in addresses {
        let Some(places) = places.get(&address) else { continue };
        let lines = places.iter().map(|place| adding.line(profile, place)).collect();
        let location = &mut profile.location[index];
        location.line = lines;
        let has = named.entry(location.mapping_id).or_default();
        has[0] |= places.iter().any(|place| !place.file.is_empty());
        has[1] |= places.iter().any(|place| place.line > 0);
        has[2] |= places.len() > 1;
    }
    for mapping in &mut profile.mapping {
        if let Some([files, lines, inlined]) = named.get(&mapping.id) {
            mapping.has_functions = true;
            mapping.has_filenames |= files;
            mapping.has_line_numbers |= lines;
            mapping.has_inline_frames |= inlined;
        }
    }
    damage.map(|why| format!("debug information is damaged ({why}); lines are missing"))
}

/// Functions that were added to a profile, each once.
struct Adding {
    strings: Strings,
    functions: HashMap<(String, String), u64>,
    used: HashSet<u64>,
    next: u64,
}

impl Adding {
    fn new(profile: &mut Profile) -> Self {
        let used = profile.function.iter().map(|function| function.id).collect();
        Self { strings: Strings::of(profile), functions: HashMap::new(), used, next: 1 }
    }

    fn line(&mut self, profile: &mut Profile, place: &Place) -> Line {
        let key = (place.name.clone(), place.file.clone());
        let known = self.functions.get(&key).copied();
        let function_id = known.unwrap_or_else(|| self.function(profile, key));
        Line { function_id, line: place.line.into(), column: place.column.into() }
    }

    fn function(&mut self, profile: &mut Profile, key: (String, String)) -> u64 {
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        let id = self.next;
        self.used.insert(id);
        let (system_name, file) = &key;
        let texts = [mangled::readable(system_name), system_name.clone(), file.clone()];
        let [name, system_name, filename] = texts.map(|text| self.strings.index(profile, &text));
        profile.function.push(Function { id, name, system_name, filename, start_line: 0 });
        self.functions.insert(key, id);
        id
    }
}
