//! The project's own checks, as `cargo xtask NAME`.
//!
//! `tidy` reads the tree, `golden` reads the built library's instructions, `header` what the library offers to C, `abi` what linked programs rely on, `reference` makes pages of the book of what the
//! code says, `book` builds the book, `misuse` runs programs that misuse the heap, and `ci` runs these and Cargo's own checks in the order in which CI does;
//! `equal-arms`, `explore`, `mutants`, `soak`, `torture` and `valgrind` take longer than CI may, and are what `nightly` runs, with all of the tests' effort. Every check has
//! a test in which it finds a planted violation. `targets` measures what has to be reached (bench/), `proof` the package in fresh systems. `install` puts the library where C and C++ programs find it.

mod abi;
mod book;
mod charts;
mod ci;
mod crates;
mod equal_arms;
mod fuzz;
mod golden;
mod header;
mod install;
mod library;
mod markdown;
mod misuse;
mod mutants;
mod nightly;
mod package;
mod packs;
mod pages;
mod portable;
mod proof;
mod prose;
mod reference;
mod release;
mod simulated_manifests;
mod tidy;
mod tokens;
mod torture;
mod tree;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use mutants::Choice;
use nightly::Amount;
use torture::Build;

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check what compilers do not: tiers, no Linux in the runtime, names cited in ARCHITECTURE.md, …
    Tidy,
    /// Print which tier of the runtime uses which, and which of its files use each other in circles
    Tiers,
    /// Count the instructions on the fast paths of the release library and compare them with xtask/golden/fast_path.txt
    Golden {
        /// Accept the present counts, as far as they keep the limits
        #[arg(long)]
        bless: bool,
    },
    /// Build the library and the command as released, and check that they are not too large
    Size,
    /// Generate the C header and compare it with malloc/include/commensal.h
    Header {
        /// Write it
        #[arg(long)]
        bless: bool,
    },
    /// Compare the library's symbols and the header's structures with malloc/abi.txt
    Abi {
        /// Accept additions, or all changes if the soname has changed, too
        #[arg(long)]
        bless: bool,
    },
    /// Generate the book's reference and compare it with docs/reference/
    Reference {
        /// Write it, and copy files anew into the blocks of code that are copies
        #[arg(long)]
        bless: bool,
    },
    /// Measure how plain the prose of files is: words a sentence, percent of sentences over 30 words, stumbles per 100 words
    Prose {
        /// Paths from the root, of Markdown or of sources with comments
        #[arg(required = true)]
        files: Vec<String>,
    },
    /// Build the book into target/book and test its examples; installs mdBook below target/tools if it is missing
    Book,
    /// Draw the README's charts from docs/charts/results.json and compare them with the committed ones
    Charts {
        /// Measure first, beside the peers: some five minutes on an idle machine
        #[arg(long)]
        measure: bool,
        /// Write them
        #[arg(long)]
        bless: bool,
    },
    /// Compare programs with themselves, many times: one comparison in twenty may show a difference
    EqualArms {
        /// How often each program; 100 take about a minute
        #[arg(default_value_t = 100)]
        times: u32,
    },
    /// Run a mixed load for some minutes: the process must not become larger after the first tenth
    Soak {
        /// For how long
        #[arg(default_value_t = 60)]
        minutes: u32,
    },
    /// Explore the runtime's protocols on the simulated machine, with new seeds
    Explore {
        /// For how long
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// The first seed; otherwise the time tells
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Plant bugs in a copy of the sources, one line each, and look whether exploring finds them; about half a minute each
    Mutants {
        /// Only those whose description has this in it
        only: Option<String>,
        /// Only so many, which are others at each commit
        #[arg(long, value_name = "N", conflicts_with = "only")]
        rotating: Option<usize>,
    },
    /// Run programs that misuse the heap under glibc, the peers and the library, and count which are stopped
    Misuse {
        #[command(flatten)]
        options: misuse::Options,
    },
    /// Print which pages a program and its fork children fault in under the library, and which function touches each
    Pages {
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Torture RCU with all that can happen to readers, in each mode of the machine at the same time
    Torture {
        /// For how long
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    },
    /// Run the simulated machine's own tests under Valgrind; about ten minutes
    Valgrind,
    /// Install the library, its header, and what pkg-config and CMake read
    Install {
        /// The folder that gets lib/ and include/, such as /usr/local
        #[arg(long)]
        prefix: PathBuf,
        /// The folder for libraries, from the prefix, such as lib64
        #[arg(long, default_value = "lib")]
        libdir: String,
        /// The folder that stands for the root while a package is made
        #[arg(long)]
        destdir: Option<PathBuf>,
    },
    /// Fuzz malloc and each parser: settings, statistics pages, profiles, packs; needs a C++ compiler
    Fuzz {
        /// For how long, all together
        #[arg(long, default_value_t = 4.0)]
        minutes: f64,
        /// Only this target
        only: Option<String>,
    },
    /// The release checklist: all that must be so before a version goes out; then the tag, and the crates are published
    Release {
        /// Only what can be undone: no tag, and nothing is published. CI's own steps are left out
        #[arg(long)]
        dry_run: bool,
    },
    /// Hold the packs in docs/packs against their schema, and compare their page with docs/packs.md
    Packs {
        /// Write it
        #[arg(long)]
        bless: bool,
    },
    /// Make the archive and the Debian packages in target/package/out, with their checksums
    Package {
        /// Build a second time at another place: both must be the same, byte for byte
        #[arg(long)]
        twice: bool,
        /// Install them in a fresh system of this suite of Debian, use them there and remove them; needs root and debootstrap
        #[arg(long = "try", value_name = "SUITE")]
        suites: Vec<String>,
    },
    /// Measure servers and programs under the package in fresh systems of Debian, and show docs/proof as a page and a picture
    Proof {
        /// Measure in this suite, for some 28 minutes on an idle machine; needs root and debootstrap
        #[arg(long = "suite", value_name = "SUITE")]
        suites: Vec<String>,
        /// Blocks of servers; programs get four times as many
        #[arg(long, value_name = "N", default_value_t = 2, requires = "suites")]
        blocks: u32,
        /// Try it: short runs, and everything goes below target/proof/quick
        #[arg(long, requires = "suites")]
        quick: bool,
        /// Write the page and the picture, which are only compared otherwise
        #[arg(long, conflicts_with = "suites")]
        bless: bool,
    },
    /// Make the manifests that compile packages once more, on the simulated machine
    Manifests,
    /// Build the library with and without everything else in the tree: both must be the same
    Alone,
    /// Measure the rows of targets.toml beside the peers, and fail if a must is missed; `targets --help` tells its options
    #[command(disable_help_flag = true)]
    Targets {
        /// `--part N`, `--quick`, `--only WORD`, `--markdown`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Install the command alone, and look whether it brings its library
    Installed,
    /// Test what the crate `commensal` has on targets that the runtime does not know, compile it there, and all with the oldest Rust
    Portable,
    /// Find changes of the published crates that break programs since the last release
    Semver,
    /// Check licences, known faults and origins of all dependencies by deny.toml
    Deny,
    /// Run all steps of CI, with the time that each takes
    Ci,
    /// Run what takes longer than CI may, some six hours, and write docs/nightly.md; .ci/nightly-install installs what it needs
    Nightly {
        /// Only this step; may be given several times
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
        /// Little of each, some three quarters of an hour, to try it
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(&root()),
        Task::Tiers => tidy::tiers::print(&root()),
        Task::Golden { bless } => golden::run(&root(), bless),
        Task::Size => library::check_size(&root()),
        Task::Header { bless } => header::run(&root(), bless),
        Task::Abi { bless } => abi::run(&root(), bless),
        Task::Reference { bless } => reference::run(&root(), bless),
        Task::Prose { files } => prose::run(&root(), &files),
        Task::Book => book::run(&root()),
        Task::Charts { measure, bless } => charts::run(&root(), measure, bless),
        Task::EqualArms { times } => equal_arms::run(&root(), times),
        Task::Explore { minutes, seed } => mutants::explore(&root(), minutes, seed),
        Task::Mutants { only, rotating } => {
            let choice = match (&only, rotating) {
                (Some(words), _) => Choice::Named(words),
                (None, Some(count)) => Choice::Rotating(count),
                (None, None) => Choice::All,
            };
            mutants::run(&root(), &choice)
        }
        Task::Misuse { options } => misuse::run(&root(), &options),
        Task::Install { prefix, libdir, destdir } => install::run(&root(), &prefix, &libdir, destdir.as_deref()),
        Task::Fuzz { minutes, only } => fuzz::run(&root(), minutes, only.as_deref()),
        Task::Release { dry_run } => release::run(&root(), dry_run),
        Task::Packs { bless } => packs::run(&root(), bless),
        Task::Package { twice, suites } => package::run(&root(), twice, &suites),
        Task::Proof { suites, blocks, quick: is_quick, bless } => match suites.is_empty() {
            true => proof::show(&root(), bless),
            false => proof::measure(&root(), &suites, proof::Amount { blocks, is_quick }),
        },
        Task::Pages { command } => pages::run(&root(), &command),
        Task::Soak { minutes } => library::soak(&root(), minutes),
        Task::Torture { minutes } => torture::run(&root(), minutes, Build::Release),
        Task::Valgrind => torture::run_under_valgrind(&root()),
        Task::Manifests => simulated_manifests::run(&root()),
        Task::Alone => library::check_alone(&root()),
        Task::Targets { options } => targets(&root(), &options),
        Task::Installed => library::check_installed(&root()),
        Task::Portable => portable::run(&root()),
        Task::Semver => crates::check_interfaces(&root()),
        Task::Deny => crates::check_dependencies(&root()),
        Task::Ci => ci::run(&root()),
        Task::Nightly { only, quick } => nightly::run(&root(), &only, if quick { Amount::Quick } else { Amount::Full }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The gate is a program of its own, as it needs the peers; its exit status is ours.
fn targets(root: &Path, options: &[String]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["run", "--quiet", "--release", "--package", "bench", "--", "targets"])
        .args(options)
        .current_dir(root);
    Err(format!("{command:?} cannot be run: {}", command.exec()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the workspace").to_owned()
}
