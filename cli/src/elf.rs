//! Facts about an ELF file: its machine, whether a loader starts it, and what it exports. Reads only these parts of the file.

use std::fs::File;
use std::io;
use std::path::Path;

use object::elf::{FileHeader32, FileHeader64, Machine, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};

/// The facts that decide whether a library can be preloaded into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elf {
    /// The word size, 32 or 64.
    pub bits: u8,
    /// The instruction set (`EM_…`).
    pub machine: Machine,
    /// Whether it names a loader; without one, nothing reads LD_PRELOAD.
    pub names_loader: bool,
}

/// Reads the headers of the file at `path`; `None` if it is no ELF file.
pub fn read(path: &Path) -> io::Result<Option<Elf>> {
    let file = ReadCache::new(File::open(path)?);
    Ok(match FileKind::parse(&file) {
        Ok(FileKind::Elf32) => facts::<FileHeader32<Endianness>, _>(&file, 32),
        Ok(FileKind::Elf64) => facts::<FileHeader64<Endianness>, _>(&file, 64),
        _ => None,
    })
}

fn facts<'data, Header, Data>(data: Data, bits: u8) -> Option<Elf>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let names_loader = segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP);
    let machine = header.e_machine(endian);
    Some(Elf { bits, machine, names_loader })
}

/// The C string that the shared library at `path` exports as `symbol`.
pub fn exported_string(path: &Path, symbol: &str) -> Option<String> {
    let data = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&data).ok()?;
    let symbol = file.dynamic_symbols().find(|other| other.name() == Ok(symbol))?;
    let bytes =
        file.segments().find_map(|segment| segment.data_range(symbol.address(), symbol.size()).ok().flatten())?;
    let text = bytes.split(|&byte| byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}
