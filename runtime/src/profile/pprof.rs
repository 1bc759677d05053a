//! A profile in the format of pprof: Protocol Buffers (`profile.proto` of github.com/google/pprof) in gzip.
//!
//! Addresses have no names: readers find these by the files of the mappings. Each site is one sample for each range of
//! lifetimes of its freed blocks, and one for the rest, so that sums over all samples are right.
//!
//! Allocates nothing, and needs some 20 KiB of fresh pages while it writes.

use super::gzip::{Gzip, Sink};
use super::reading::{Reading, lost, place, sites};
use super::region;
use super::table::{Figures, PLACES, longest_of};
use crate::cpu_cache::means;
use crate::misuse::Line;
use core::ffi::CStr;
use core::fmt::Write;
use machine::file::File;
use machine::{process, vm};

/// Numbers of texts that are always there.
const TEXTS: &str = " alloc_objects alloc_space inuse_objects inuse_space peak_objects peak_space count bytes space \
                     thread group region lifetime nanoseconds";

/// The number of such a text.
const fn text(wanted: &str) -> u64 {
    match crate::settings::place(TEXTS, wanted.as_bytes()) {
        Some(number) => number,
        None => panic!("it is none"),
    }
}

/// Longest line of `/proc/self/maps`: some numbers and a path.
const LINE: usize = 4096 + 128;

/// The moment of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// The program goes on. Readers show first what is live.
    Run,
    /// It ends. Readers show first what was live at the peak.
    Exit,
}

/// Memory that a writer needs. All-zero memory is valid.
struct Scratch {
    line: [u8; LINE],
    /// A bit for each return address: it lies in a mapping that was written.
    is_mapped: [u64; PLACES / 64],
}

/// Writes the profile. False: there is no memory for it, or something could not be written.
///
/// Other threads go on meanwhile, and wait at most as long as it takes to read one site.
pub fn write(to: Sink<'_>, at: At) -> bool {
    let bytes = size_of::<Scratch>().next_multiple_of(vm::PAGE);
    let Some(memory) = vm::reserve(core::ptr::null_mut(), bytes, vm::Access::ReadWrite) else { return false };
    // SAFETY: fresh zeroes, which are valid, and only ours.
    let scratch = unsafe { &mut *memory.cast::<Scratch>() };
    let mut profile = Writer { out: Gzip::new(to), texts: 0 };
    profile.head(at);
    sites().for_each(|site| profile.site(&site));
    profile.mappings(scratch);
    let is_whole = profile.out.finish();
    // SAFETY: ours, and not used any more.
    unsafe { vm::release(memory, bytes) };
    is_whole
}

struct Writer<'a> {
    out: Gzip<'a>,
    texts: u64,
}

/// A message's fields, encoded.
struct Message {
    bytes: [u8; 1024],
    used: usize,
}

impl Message {
    fn new() -> Self {
        Message { bytes: [0; 1024], used: 0 }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }

    #[inline(never)]
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        // The longest message has some 350 bytes: numbers of places and labels are short.
        if let Some(room) = self.bytes.get_mut(self.used..).and_then(|rest| rest.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
            self.used += bytes.len();
        }
        self
    }

    #[inline(never)]
    fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8])
    }

    /// A field with a number.
    #[inline(never)]
    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3).varint(value)
    }

    /// The head of a field with so many bytes.
    fn head(&mut self, field: u64, bytes: usize) -> &mut Self {
        self.varint(field << 3 | 2).varint(bytes as u64)
    }

    /// A field with a message.
    fn message(&mut self, field: u64, message: &Message) -> &mut Self {
        self.head(field, message.used).put(message.as_bytes())
    }
}

impl Writer<'_> {
    #[inline(never)]
    fn put(&mut self, field: u64, message: &Message) {
        self.out.put(Message::new().head(field, message.used).as_bytes());
        self.out.put(message.as_bytes());
    }

    #[inline(never)]
    /// Writes a text, up to its first zero, and returns its number; 0 for none.
    fn text(&mut self, text: &[u8]) -> u64 {
        const TEXT: u64 = 6;
        let text = text.split(|&byte| byte == 0).next().unwrap_or(&[]);
        if text.is_empty() && self.texts > 0 {
            return 0;
        }
        self.out.put(Message::new().head(TEXT, text.len()).as_bytes());
        self.out.put(text);
        self.texts += 1;
        self.texts - 1
    }

    fn head(&mut self, at: At) {
        const PERIOD_TYPE: u64 = 11;
        TEXTS.split(' ').for_each(|text| _ = self.text(text.as_bytes()));
        let typed = |kind, unit| {
            let mut message = Message::new();
            message.number(1, kind).number(2, unit);
            message
        };
        for [objects, space] in const {
            [
                [text("alloc_objects"), text("alloc_space")],
                [text("inuse_objects"), text("inuse_space")],
                [text("peak_objects"), text("peak_space")],
            ]
        } {
            self.put(1, &typed(objects, const { text("count") }));
            self.put(1, &typed(space, const { text("bytes") }));
        }
        self.put(PERIOD_TYPE, &typed(const { text("space") }, const { text("bytes") }));
        let mut rest = Message::new();
        rest.number(12, means().profile)
            .number(14, if at == At::Run { const { text("inuse_space") } } else { const { text("peak_space") } });
        if at == At::Exit {
            let comment = self.text(b"at: exit");
            rest.number(13, comment);
        }
        if lost() > 0 {
            let mut line = Line::new();
            let _ = write!(line, "lost samples: {}", lost());
            let comment = self.text(line.as_bytes());
            rest.number(13, comment);
        }
        self.out.put(rest.as_bytes());
    }

    fn site(&mut self, reading: &Reading) {
        let (site, labels) = (&reading.site, &reading.site.labels);
        let mut named = Message::new();
        for (key, name) in [
            (const { text("thread") }, &labels.thread[..]),
            (const { text("group") }, &labels.group),
            (const { text("region") }, &region::name(labels.region)),
        ] {
            let number = self.text(name);
            if number > 0 {
                let mut label = Message::new();
                label.number(1, key).number(2, number);
                named.message(3, &label);
            }
        }
        let mut rest = site.allocated;
        for (range, &freed) in site.lifetimes.iter().enumerate().filter(|(_, freed)| freed.blocks > 0.0) {
            rest = rest - freed;
            let mut label = Message::new();
            label
                .number(1, const { text("lifetime") })
                .number(3, longest_of(range))
                .number(4, const { text("nanoseconds") });
            self.sample(reading, [freed, Figures::default(), Figures::default()], &named, Some(&label));
        }
        self.sample(reading, [rest, site.live(), reading.at_peak], &named, None);
    }

    fn sample(&mut self, reading: &Reading, figures: [Figures; 3], labels: &Message, lifetime: Option<&Message>) {
        let whole = |number: f64| if number > 0.0 { (number + 0.5) as u64 } else { 0 };
        let values = figures.map(|figures| [whole(figures.blocks), whole(figures.bytes)]);
        if values.as_flattened().iter().all(|&value| value == 0) {
            return;
        }
        let (mut locations, mut numbers) = (Message::new(), Message::new());
        let frames = reading.frames.iter().take(reading.depth);
        frames.for_each(|&frame| _ = locations.varint(u64::from(frame) + 1));
        values.as_flattened().iter().for_each(|&value| _ = numbers.varint(value));
        let mut sample = Message::new();
        sample.message(1, &locations).message(2, &numbers).put(labels.as_bytes());
        if let Some(label) = lifetime {
            sample.message(3, label);
        }
        self.put(2, &sample);
    }

    /// The mappings that have return addresses, and all of these.
    fn mappings(&mut self, scratch: &mut Scratch) {
        let Scratch { line, is_mapped } = scratch;
        let (mut mappings, mut start_of_file) = (0, 0);
        each_line(c"/proc/self/maps", line, |line| {
            let Some(mapping) = Mapping::of(line) else { return };
            if mapping.offset == 0 {
                start_of_file = mapping.start;
            }
            let is_within = |address: usize| (mapping.start..mapping.end).contains(&address);
            if !mapping.is_code || !places().any(|(_, address)| is_within(address)) {
                return;
            }
            mappings += 1;
            self.mapping(mappings, &mapping, start_of_file);
            for (number, address) in places().filter(|place| is_within(place.1)) {
                if let Some(word) = is_mapped.get_mut(number as usize / 64) {
                    *word |= 1 << (number % 64);
                }
                self.location(number, mappings, address);
            }
        });
        for (number, address) in places() {
            if is_mapped.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) == 0) {
                self.location(number, 0, address);
            }
        }
    }

    fn mapping(&mut self, number: u64, mapping: &Mapping<'_>, start_of_file: usize) {
        let file = self.text(mapping.path);
        let mut note = [0; 64];
        let build = build_id(start_of_file, &mut note).map_or(0, |id| self.text(id));
        let mut message = Message::new();
        message.number(1, number).number(2, mapping.start as u64).number(3, mapping.end as u64);
        message.number(4, mapping.offset).number(5, file).number(6, build);
        self.put(3, &message);
    }

    /// Readers expect an address in the call, not the one behind it.
    fn location(&mut self, number: u32, mapping: u64, address: usize) {
        let mut message = Message::new();
        message.number(1, u64::from(number) + 1).number(2, mapping).number(3, address as u64 - 1);
        self.put(4, &message);
    }
}

/// All return addresses, with their numbers.
fn places() -> impl Iterator<Item = (u32, usize)> {
    (0..).map_while(|number| Some((number, place(number)?)))
}

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    start: usize,
    end: usize,
    offset: u64,
    is_code: bool,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// The kernel writes `start-end rights offset device inode  path`, numbers in hexadecimal.
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let mut word = || words.next();
        let (range, rights, offset, ..) = (word()?, word()?, word()?, word()?, word()?);
        let mut ends = range.splitn(2, |&byte| byte == b'-');
        let (start, end) = (hexadecimal(ends.next()?)?, hexadecimal(ends.next()?)?);
        let offset = hexadecimal(offset)? as u64;
        Some(Mapping { start, end, offset, is_code: rights.get(2) == Some(&b'x'), path: word()?.trim_ascii_start() })
    }
}

fn hexadecimal(text: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

/// Calls `work` with each line of a file, without its end. A longer one than the buffer comes in parts.
fn each_line(path: &CStr, buffer: &mut [u8], mut work: impl FnMut(&[u8])) {
    let Ok(file) = File::open(path) else { return };
    let mut used = 0;
    while let Ok(read @ 1..) = file.read(&mut buffer[used..]) {
        used += read;
        let mut start = 0;
        while let Some(length) = buffer[start..used].iter().position(|&byte| byte == b'\n') {
            work(&buffer[start..start + length]);
            start += length + 1;
        }
        if start == 0 && used == buffer.len() {
            start = used;
        }
        buffer.copy_within(start..used, 0);
        used -= start;
    }
}

/// The build id of the ELF file that is mapped from an address on, in hexadecimal. None: it has none there.
fn build_id(start: usize, text: &mut [u8; 64]) -> Option<&[u8]> {
    const NOTES: u32 = 4;
    let mut head = [0; 64];
    if !process::read_memory(start, &mut head) || head[..5] != *b"\x7fELF\x02" {
        return None;
    }
    let at = |bytes: &[u8], place: usize| {
        let word = bytes.get(place..).and_then(<[u8]>::first_chunk);
        u64::from_le_bytes(*word.unwrap_or(&[0; 8]))
    };
    let (table, entries) = (at(&head, 32) as usize, at(&head, 56) as u16);
    for entry in 0..entries.min(64) as usize {
        let mut header = [0; 56];
        if !process::read_memory(start + table + 56 * entry, &mut header) {
            return None;
        }
        // The notes lie in the first mapping, at the same place as in the file.
        let (kind, offset, bytes) = (at(&header, 0) as u32, at(&header, 8) as usize, at(&header, 32) as usize);
        if kind == NOTES
            && let Some(id) = build_id_among(start + offset, bytes, text)
        {
            return text.get(..id);
        }
    }
    None
}

/// The length of the text.
fn build_id_among(start: usize, bytes: usize, text: &mut [u8; 64]) -> Option<usize> {
    const BUILD_ID: u32 = 3;
    let mut at = 0;
    while at + 16 <= bytes {
        let mut head = [0; 16];
        process::read_memory(start + at, &mut head).then_some(())?;
        let [name, length, kind, owner] = core::array::from_fn(|place| {
            let word = head.as_chunks::<4>().0.get(place);
            u32::from_le_bytes(*word.unwrap_or(&[0; 4]))
        });
        let (name, length) = (name as usize, length as usize);
        if kind == BUILD_ID && owner == u32::from_le_bytes(*b"GNU\0") {
            let mut id = [0; 32];
            let id = id.get_mut(..length)?;
            process::read_memory(start + at + 16, id).then_some(())?;
            for (digits, byte) in text.chunks_exact_mut(2).zip(&*id) {
                let digit = |half: u8| b"0123456789abcdef"[half as usize];
                digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
            return Some(2 * length);
        }
        at += 12 + name.next_multiple_of(4) + length.next_multiple_of(4);
    }
    None
}
