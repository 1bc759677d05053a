//! Files: what was written is read again, and what is damaged gives an error that says so and never a panic.

use profiles::builder::{Builder, Value};
use profiles::profile::{Amount, Measure, Profile};
use profiles::proto::{self, Strings};
use profiles::table::{self, By, Key};
use profiles::{diff, flame, names, read, trim};
use prost::Message;

const GAP: i64 = 512 << 10;

/// Two sites, one of them freed within two ranges of lifetimes.
fn example() -> proto::Profile {
    builder().finish()
}

fn builder() -> Builder {
    let labels =
        [("thread", Value::Word("worker")), ("group", Value::Word("tenant")), ("region", Value::Word("parse"))];
    let lived = |ns| [("thread", Value::Word("worker")), ("lifetime", Value::Nanoseconds(ns))];
    let mut builder = Builder::new(GAP);
    builder.comment("lost samples: 3").comment("at: exit");
    builder.mapping([0x1000, 0x9000], 0x1000, "/no/such/program", "ab12");
    builder.sample(&[0x2001, 0x3001], [10, 1000, 10, 1000, 5, 500], &labels);
    builder.sample(&[0x2501, 0x3001], [7, 700, 0, 0, 7, 700], &lived(1 << 20));
    builder.sample(&[0x2501, 0x3001], [2, 200, 0, 0, 0, 0], &lived(1 << 10));
    builder
}

/// Names these addresses: functions on line 7, innermost first.
fn name(builder: &mut Builder, names: &[(u64, &[&str])]) {
    for (address, functions) in names {
        let lines: Vec<(&str, &str, i64)> = functions.iter().map(|function| (*function, "", 7)).collect();
        builder.name(*address, &lines);
    }
}

fn functions(profile: &Profile, sample: usize) -> Vec<&str> {
    profile.samples[sample].stack.iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn written_profile_is_read_again_gzipped_and_plain() {
    let raw = example();
    assert_eq!(read::profile(&read::gzipped(&raw)).unwrap(), raw);
    assert_eq!(read::profile(&raw.encode_to_vec()).unwrap(), raw);
    let profile = Profile::new(&raw).unwrap();
    assert_eq!(
        (profile.mean_gap_bytes, profile.lost_samples, profile.program.as_str()),
        (512 << 10, 3, "/no/such/program")
    );
    assert_eq!(profile.total(Measure::Live), Amount { bytes: 1000, blocks: 10 });
    assert_eq!(profile.total(Measure::Peak), Amount { bytes: 1200, blocks: 12 });
    assert_eq!(profile.total(Measure::Allocated), Amount { bytes: 1900, blocks: 19 });
    let sample = &profile.samples[0];
    assert_eq!(
        (sample.thread.as_deref(), sample.group.as_deref(), sample.region.as_deref()),
        (Some("worker"), Some("tenant"), Some("parse"))
    );
    assert_eq!(functions(&profile, 0), ["program+0x2000", "program+0x3000"]);
}

#[test]
fn rows_are_sums_by_each_fact() {
    let profile = Profile::new(&example()).unwrap();
    let rows = |by| {
        let rows = table::rows(&profile, Measure::Allocated, by).into_iter();
        rows.map(|row| (row.key, row.own.bytes, row.with_callees.bytes)).collect::<Vec<_>>()
    };
    let word = |text: &str| Key::Word(text.to_owned());
    assert_eq!(rows(By::Site(9)).iter().map(|row| row.1).collect::<Vec<_>>(), [1000, 900]);
    let outer = |name: &str| builder().name(0x3001, &[(name, "", 0)]).finish();
    let stacks = |depth| table::rows(&Profile::new(&outer("main")).unwrap(), Measure::Allocated, By::Site(depth));
    assert_eq!((stacks(1).len(), stacks(0).len()), (2, 1));
    assert_eq!(
        rows(By::Function),
        [(word("program+0x2000"), 1000, 1000), (word("program+0x2500"), 900, 900), (word("program+0x3000"), 0, 1900)]
    );
    assert_eq!(rows(By::Thread), [(word("worker"), 1900, 0)]);
    assert_eq!(rows(By::Group), [(Key::Word("tenant".to_owned()), 1000, 0), (Key::None, 900, 0)]);
    assert_eq!(rows(By::Region), [(word("parse"), 1000, 0), (Key::None, 900, 0)]);
    assert_eq!(
        rows(By::Lifetime),
        [(Key::Lifetime(1 << 10), 200, 0), (Key::Lifetime(1 << 20), 700, 0), (Key::None, 1000, 0)]
    );
}

#[test]
fn frames_of_the_allocator_are_dropped_by_the_file_of_the_library() {
    let mut builder = Builder::new(GAP);
    builder.mapping([0x1000, 0x2000], 0, "/usr/lib/libcommensal.so.0", "");
    builder.mapping([0x3000, 0x4000], 0, "/bin/program", "");
    builder.sample(&[0x1101, 0x1201, 0x3101, 0x1301, 0x3201], [1; 6], &[]).sample(&[0x1101, 0x1201], [1; 6], &[]);
    let mut raw = builder.finish();
    trim::allocator_frames(&mut raw);
    let profile = Profile::new(&raw).unwrap();
    assert_eq!(functions(&profile, 0), ["program+0x100", "libcommensal.so.0+0x300", "program+0x200"]);
    assert_eq!(functions(&profile, 1), ["libcommensal.so.0+0x200"]);
}

#[test]
fn frames_of_the_allocator_are_dropped_by_name_within_a_location_too() {
    let shim = ["__rustc::__rust_alloc", "alloc::alloc::alloc", "alloc::vec::Vec<T>::with_capacity", "app::fill"];
    let own = [
        "commensal_host::thread::current",
        "<commensal_runtime::global::Commensal as core::alloc::GlobalAlloc>::alloc",
    ];
    let mut builder = Builder::new(GAP);
    builder.sample(&[1, 2, 3], [1; 6], &[]).sample(&[2, 3], [1; 6], &[]).sample(&[4, 3], [1; 6], &[]);
    builder.sample(&[5], [1; 6], &[]).sample(&[3, 2], [1; 6], &[]);
    name(&mut builder, &[(1, &own), (2, &shim), (3, &["main"]), (4, &["commensal_app::serve"]), (5, &["malloc"])]);
    let mut raw = builder.finish();
    trim::allocator_frames(&mut raw);
    let profile = Profile::new(&raw).unwrap();
    let rest = ["alloc::vec::Vec<T>::with_capacity", "app::fill", "main"];
    assert_eq!([functions(&profile, 0), functions(&profile, 1)], [rest, rest]);
    // A program's own function stays, also with such a name, and so does the only frame.
    assert_eq!(functions(&profile, 2), ["commensal_app::serve", "main"]);
    assert_eq!(functions(&profile, 3), ["malloc"]);
    // Further out, the location is whole.
    assert_eq!(functions(&profile, 4), [&["main"][..], &shim].concat());
    assert!(read::profile(&read::gzipped(&raw)).is_ok());
}

#[test]
fn site_that_grew_most_is_first_and_one_that_shrank_is_last() {
    let with = |live: [i64; 3]| {
        let mut builder = Builder::new(GAP);
        for (site, bytes) in live.into_iter().enumerate() {
            builder.sample(&[0x100 * (site as u64 + 1)], [1, bytes, 1, bytes, 1, bytes], &[]);
        }
        Profile::new(&builder.finish()).unwrap()
    };
    let (before, after) = (with([5000, 100, 900]), with([5100, 4000, 100]));
    let changes = diff::changes(&before, &after, Measure::Live, 4);
    assert_eq!(changes.iter().map(diff::Change::growth).collect::<Vec<_>>(), [3900, 100, -800]);
    assert_eq!(changes[0].stack[0].function, "0x1ff");
}

#[test]
fn sites_of_a_rebuilt_program_are_compared_without_lines() {
    let of = |build_id: &str, line: i64| {
        let mut builder = Builder::new(GAP);
        builder.mapping([0, 0x1000], 0, "/bin/program", build_id).sample(&[0x100], [1, 64, 1, 64, 1, 64], &[]);
        builder.name(0x100, &[("work", "work.c", line)]);
        Profile::new(&builder.finish()).unwrap()
    };
    assert_eq!(diff::changes(&of("aa", 7), &of("aa", 8), Measure::Live, 4).len(), 2);
    assert_eq!(diff::changes(&of("aa", 7), &of("bb", 8), Measure::Live, 4).len(), 0);
}

#[test]
fn flame_graph_is_an_svg_of_all_functions() {
    let mut builder = builder();
    name(&mut builder, &[(0x2001, &["inner;<T>"]), (0x3001, &["outer"]), (0x2501, &["gone"])]);
    let profile = Profile::new(&builder.finish()).unwrap();
    let mut svg = Vec::new();
    flame::write(&profile, Measure::Live, "Title", "Subtitle", &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(
        ["<svg", "Title", "Subtitle", "program", "outer", "inner,&lt;T&gt;"].iter().all(|part| svg.contains(part)),
        "{svg}"
    );
    assert!(!svg.contains("gone"));
}

#[test]
fn inlined_functions_without_modules_are_dropped_if_the_allocator_is_around_them() {
    let own = [("sample", "/src/heap.rs", 1), ("alloc", "/src/global.rs", 2), ("__rust_alloc", "", 0)];
    let call =
        [("alloc", "/rustc/1/library/alloc/src/alloc.rs", 1), ("fill", "/app/src/fill.rs", 5), ("app::main", "", 9)];
    let mut builder = Builder::new(GAP);
    builder.sample(&[1, 2], [1; 6], &[]).name(1, &own).name(2, &call);
    let mut raw = builder.finish();
    trim::allocator_frames(&mut raw);
    assert_eq!(functions(&Profile::new(&raw).unwrap(), 0), ["fill", "app::main"]);
}

fn error(bytes: &[u8]) -> String {
    let read = read::profile(bytes).and_then(|raw| Profile::new(&raw).map(drop));
    format!("{:#}", read.expect_err("this is no heap profile"))
}

#[test]
fn error_says_what_is_wrong_with_a_file() {
    let (raw, zipped) = (example(), read::gzipped(&example()));
    let says = |bytes: &[u8], expected: &str| {
        let said = error(bytes);
        assert!(said.contains(expected), "{said:?} instead of {expected:?}");
    };
    says(b"", "the file is empty");
    says(&zipped[..zipped.len() / 2], "the file is truncated");
    says(&zipped[..zipped.len() - 4], "the file is truncated");
    says(b"\x7fELF and so on", "is no profile");
    says(b"# a text\n", "is no profile");
    says(b"heap_v2/524288\n", "jemalloc");
    says(&read::gzipped(&proto::Profile::default()), "no types of values");
    let plain = raw.encode_to_vec();
    says(&plain[..plain.len() - 30], "truncated");
    let mut damaged = zipped.clone();
    damaged[20] ^= 0xff;
    says(&damaged, "damaged");
    let with = |change: fn(&mut proto::Profile)| {
        let mut raw = example();
        change(&mut raw);
        raw.encode_to_vec()
    };
    says(&with(|raw| raw.sample[1].value.truncate(5)), "sample 1 has 5 values, expected 6");
    says(&with(|raw| raw.sample[0].location_id[0] = 77), "names location 77");
    says(&with(|raw| raw.mapping[0].filename = -1), "names string -1");
    says(&with(|raw| raw.location[0].mapping_id = 9), "location 1 names");
    let cpu = with(|raw| raw.string_table.iter_mut().for_each(|text| text.extend(b"_of_cpu")));
    says(&[&cpu[..0], &cpu].concat(), "damaged");
    let cpu = with(|raw| raw.string_table.iter_mut().skip(1).for_each(|text| text.extend(b"_of_cpu")));
    says(&cpu, "is no heap profile: its types of values are alloc_objects_of_cpu");
}

#[test]
fn profiles_of_others_are_read() {
    // As Go writes them: no peak. As some others do: one type.
    let mut go = example();
    go.sample_type.truncate(4);
    go.sample.iter_mut().for_each(|sample| sample.value.truncate(4));
    let profile = Profile::new(&go).unwrap();
    assert_eq!(profile.measures, [Measure::Live, Measure::Allocated]);
    let mut one = example();
    one.sample_type = vec![one.sample_type[1]];
    one.sample.iter_mut().for_each(|sample| sample.value.truncate(1));
    let mut strings = Strings::of(&mut one);
    one.sample_type[0].r#type = strings.index(&mut one, "contents");
    let profile = Profile::new(&one).unwrap();
    assert_eq!((profile.measures.clone(), profile.total(Measure::Live).bytes), (vec![Measure::Live], 19));
}

/// All that can be done with a profile. Whether it is one.
fn use_all(bytes: &[u8]) -> bool {
    let Ok(mut raw) = read::profile(bytes) else { return false };
    names::add(&mut raw, "/nonexistent".as_ref());
    trim::allocator_frames(&mut raw);
    let Ok(profile) = Profile::new(&raw) else { return false };
    for measure in Measure::ALL {
        for by in [By::Site(2), By::Function, By::Thread, By::Group, By::Region, By::Lifetime] {
            table::rows(&profile, measure, by);
        }
        diff::changes(&profile, &profile, measure, 2);
        let _ = flame::write(&profile, measure, "", "", std::io::sink());
    }
    true
}

#[test]
fn arbitrary_and_damaged_bytes_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (plain, zipped) = (example().encode_to_vec(), read::gzipped(&example()));
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = match random.u8(..4) {
            0 => (0..random.usize(..200)).map(|_| random.u8(..)).collect(),
            1 => zipped.clone(),
            _ => plain.clone(),
        };
        for _ in 0..random.usize(..4).min(bytes.len()) {
            let at = random.usize(..bytes.len());
            bytes[at] = if random.bool() { random.u8(..) } else { bytes[at] ^ (1 << random.u8(..8)) };
        }
        bytes.truncate(random.usize(..=bytes.len()).max(bytes.len() * usize::from(random.bool())));
        read += usize::from(use_all(&bytes));
    }
    assert!((1000..19_000).contains(&read), "{read} of 20000 were profiles");
}
