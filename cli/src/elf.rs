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

#[cfg(test)]
pub mod tests {
    use super::*;
    use object::elf::{EM_386, EM_AARCH64, EM_X86_64};
    use std::fs;

    /// A minimal ELF file: a header, and one program header that names a loader if `names_loader`.
    pub fn image(elf: Elf) -> Vec<u8> {
        let wide = elf.bits == 64;
        let header_bytes: usize = if wide { 64 } else { 52 };
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend([if wide { 2 } else { 1 }, 1, 1]);
        bytes.resize(16, 0);
        bytes.extend(2u16.to_le_bytes());
        bytes.extend(elf.machine.0.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        let mut word = |value: usize| {
            bytes.extend(&(value as u64).to_le_bytes()[..usize::from(elf.bits / 8)]);
        };
        word(0x1000);
        word(header_bytes);
        word(0);
        bytes.extend(0u32.to_le_bytes());
        let segment_bytes: u16 = if wide { 56 } else { 32 };
        for half in [header_bytes as u16, segment_bytes, 1, if wide { 64 } else { 40 }, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(u32::from(if elf.names_loader { 3u8 } else { 1 }).to_le_bytes());
        bytes.resize(header_bytes + usize::from(segment_bytes), 0);
        bytes
    }

    #[test]
    fn headers_are_read_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bits, machine) in [(32, EM_386), (64, EM_X86_64), (64, EM_AARCH64)] {
            for names_loader in [false, true] {
                let elf = Elf { bits, machine, names_loader };
                fs::write(file.path(), image(elf)).unwrap();
                assert_eq!(read(file.path()).unwrap(), Some(elf));
            }
        }
    }

    #[test]
    fn this_test_names_a_loader_and_a_text_is_no_elf_file() {
        let own = read(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert_eq!((own.bits, own.names_loader), (64, true));
        assert_eq!(read(Path::new("/etc/passwd")).unwrap(), None);
    }
}
