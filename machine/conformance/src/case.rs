//! Cases: a body with the operations that it is given, and what came of it.

use crate::runner::Runner;
use machine::slot::Mode;
use machine::sync::{AtomicBool, AtomicU64, Ordering};
use std::cell::Cell;

/// What a body found wrong, if anything.
pub type Outcome = Result<(), String>;

#[derive(Debug)]
pub struct Case {
    /// The operation, as `module::operation`.
    pub name: &'static str,
    /// What is wrong with it; none: it is the machine's own.
    pub planted: Option<&'static str>,
    /// The only slot mode in which the case makes sense, if it is not both.
    pub only: Option<Mode>,
    pub run: fn(&dyn Runner) -> Outcome,
}

impl Case {
    pub fn fits(&self, mode: Mode) -> bool {
        self.only.is_none_or(|only| only == mode)
    }

    fn module(&self) -> &str {
        self.name.split("::").next().unwrap_or_default()
    }

    fn operation(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }
}

pub type Cases = Vec<&'static Case>;

/// The cases of a module: the machine's own, or the planted ones.
pub fn of_module(all: Cases, mode: Mode, module: &str, is_planted: bool) -> Cases {
    let is_asked = |case: &&Case| case.module() == module && case.fits(mode) && case.planted.is_some() == is_planted;
    let found: Cases = all.into_iter().filter(is_asked).collect();
    assert!(!found.is_empty(), "there is no such case of {module}");
    found
}

/// Panics if a case belongs to no module that is tested. Or if nothing is planted in an operation: a body that nothing
/// makes fail would be no test.
pub fn check(all: Cases, modules: &[&str]) {
    for mode in [BY_IDS, PER_THREAD] {
        let is_planted = |of: &Case| {
            all.iter().any(|case| case.fits(mode) && case.operation() == of.operation() && case.planted.is_some())
        };
        for case in all.iter().filter(|case| case.fits(mode)) {
            assert!(modules.contains(&case.module()), "{case:?} belongs to no module that is tested");
            assert!(is_planted(case), "nothing is planted in {case:?}");
        }
    }
}

pub const BY_IDS: Mode = Mode::ConcurrencyId;
pub const PER_THREAD: Mode = Mode::PerThread;

/// Makes the table of a module's operations: what each is specified to do, its type, and the machine's own.
macro_rules! operations {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $own:expr,)*) => {
        #[derive(Clone, Copy, Debug)]
        pub struct Operations {
            $($(#[$attribute])* pub $name: $type,)*
        }

        impl Operations {
            pub const MACHINE: Operations = Operations { $($name: $own),* };
        }
    };
}
pub(crate) use operations;

/// Makes a table of cases: each operation with its body, and wrong versions of it, each of which the body must find.
///
/// ```text
/// cases! {
///     TABLE of the right Operations;
///     "module::operation" in MODE => body, {
///         "what is wrong" in MODE { operation: the wrong one, … }
///     }
/// }
/// ```
///
/// The body is a function of a [`Runner`] and the `Operations`. A wrong version is correct except where it is named. A
/// case that names no mode runs in both modes, and a wrong version in the modes of its operation.
#[macro_export]
macro_rules! cases {
    ($table:ident of $right:expr; $($name:literal $(in $mode:ident)? => $body:expr, $wrong:tt)*) => {
        #[allow(clippy::needless_update, reason = "some modules have as many operations as a wrong version names")]
        pub const $table: &[&[$crate::Case]] = &[$($crate::cases!(@ $right, $name, [$($mode)?], $body, $wrong)),*];
    };
    (@ $right:expr, $name:literal, $mode:tt, $body:expr, {$($what:literal $(in $only:ident)? {$($wrong:tt)*})*}) => {
        &[
            $crate::cases!(@ $name, None, $mode, [], $body, $right),
            $($crate::cases!(@ $name, Some($what), $mode, [$($only)?], $body, Operations { $($wrong)*, ..$right })),*
        ]
    };
    (@ $name:literal, $planted:expr, $mode:tt, $only:tt, $body:expr, $operations:expr) => {
        $crate::Case {
            name: $name,
            planted: $planted,
            only: $crate::case::narrowest(&$mode, &$only),
            run: |runner| {
                const BODY: fn(&dyn $crate::Runner, &Operations) -> $crate::Outcome = $body;
                BODY(runner, &$operations)
            },
        }
    };
}

pub const fn narrowest(of_operation: &[Mode], own: &[Mode]) -> Option<Mode> {
    match (own, of_operation) {
        ([mode], _) | ([], [mode]) => Some(*mode),
        _ => None,
    }
}

/// Makes the tests of a machine from all cases. For each mode and module, `pass` gets the machine's, and `find` the
/// planted ones.
#[macro_export]
macro_rules! tests {
    ($all:ident, $pass:ident, $find:ident) => {
        $crate::tests! {
            $all $pass $find slot kick sync thread vm publication sandbox clock process root fault code stack
            probe
        }
    };
    ($all:ident $pass:ident $find:ident $($module:ident)*) => {
        $crate::tests! { by_ids, BY_IDS, $all, $pass, false, $($module)* }
        $crate::tests! { in_fallback, PER_THREAD, $all, $pass, false, $($module)* }
        $crate::tests! { planted_by_ids, BY_IDS, $all, $find, true, $($module)* }
        $crate::tests! { planted_in_fallback, PER_THREAD, $all, $find, true, $($module)* }

        #[test]
        fn cases_are_tested_and_can_fail() {
            $crate::case::check($all().collect(), &[$(stringify!($module)),*]);
        }
    };
    ($name:ident, $mode:ident, $all:ident, $run:ident, $planted:literal, $($module:ident)*) => {
        mod $name {
            use $crate::case::{$mode as MODE, of_module};
            $(#[test] fn $module() {
                super::$run(MODE, of_module(super::$all().collect(), MODE, stringify!($module), $planted));
            })*
        }
    };
}

/// An operation that is unsafe, as a safe function of the table.
macro_rules! trusted {
    (|$($argument:pat_param),*| $call:expr) => {
        // SAFETY: the table's only users are the bodies, which keep the machine's contract.
        |$($argument),*| unsafe { $call }
    };
}
pub(crate) use trusted;

/// Returns an [`Outcome`] with a message unless a condition holds; or, in a fork child, a `static` message.
macro_rules! ensure {
    ($condition:expr, static $message:expr) => {
        if !$condition {
            return Err($message);
        }
    };
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}
pub(crate) use ensure;

/// [`Findings::demand`], with up to three numbers of any types that can be cast.
macro_rules! demand {
    ($findings:expr, $condition:expr, $what:expr $(, $number:expr)*) => {
        $findings.demand($condition, $what, [$($number as u64),*])
    };
}
pub(crate) use demand;

/// The first error that any thread or signal handler found. Nothing in here allocates or waits.
#[derive(Debug, Default)]
pub struct Findings {
    found: AtomicBool,
    written: AtomicBool,
    what: Cell<&'static str>,
    numbers: [AtomicU64; 3],
}

// SAFETY: `what` is written by the one thread that won `found`, and read by those that see `written`.
unsafe impl Sync for Findings {}

impl Findings {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports something wrong, with up to three numbers that explain it. Only the first report is kept.
    #[cold]
    pub fn add<const N: usize>(&self, what: &'static str, numbers: [u64; N]) {
        const { assert!(N <= 3) };
        // Relaxed: decides who writes, publishes nothing.
        if self.found.swap(true, Ordering::Relaxed) {
            return;
        }
        self.what.set(what);
        for (cell, number) in self.numbers.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
        // Release pairs with the acquire in `outcome`.
        self.written.store(true, Ordering::Release);
    }

    #[inline]
    pub fn demand<const N: usize>(&self, condition: bool, what: &'static str, numbers: [u64; N]) {
        if !condition {
            self.add(what, numbers);
        }
    }

    #[inline]
    pub fn none(&self) -> bool {
        !self.found.load(Ordering::Relaxed)
    }

    /// What was found, else nothing wrong. The threads that report have ended.
    pub fn outcome(&self) -> Outcome {
        if !self.written.load(Ordering::Acquire) {
            return Ok(());
        }
        let [a, b, c] = self.numbers.each_ref().map(|number| number.load(Ordering::Relaxed));
        Err(format!("{} ({a}, {b}, {c})", self.what.get()))
    }
}
