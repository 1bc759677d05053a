//! Call sites of locks, named by the function that contains [`here!`](crate::here).
//!
//! A site is the address of a function that returns its own full name. It is one word, so one exchange claims a place
//! in a table of sites, and it costs nothing until a reader asks for the name. A name stays when lines above it change.

use core::any::type_name_of_val;
use core::fmt::{self, Write};

/// A call site. Sites are equal if they stand in the same function, closures included.
#[derive(Clone, Copy, Debug)]
pub struct Site(fn() -> &'static str);

/// The enclosing function, as a [`Site`](crate::sync::Site).
#[macro_export]
macro_rules! here {
    () => {{
        // Not inlined, so it exists once, and its address identifies the site.
        #[inline(never)]
        fn here() -> &'static str {
            $crate::sync::full_name(&here)
        }
        $crate::sync::Site::new(here)
    }};
}

/// The compiler's name of the function `here` of a site.
#[doc(hidden)]
pub fn full_name(here: &impl Fn() -> &'static str) -> &'static str {
    type_name_of_val(here)
}

impl Site {
    /// The site of this function, or of a stand-in that returns a name.
    #[doc(hidden)]
    pub const fn new(name: fn() -> &'static str) -> Self {
        Site(name)
    }

    fn function(self) -> &'static str {
        let name = (self.0)();
        let mut name = name.strip_suffix("::here").unwrap_or(name);
        while let Some(outer) = name.strip_suffix("::{{closure}}") {
            name = outer;
        }
        name
    }

    /// The site's word in a table; never null. Equal sites may have several.
    pub(super) fn word(self) -> *mut () {
        self.0 as *mut ()
    }

    /// # Safety
    /// The word is a site's.
    pub(super) unsafe fn of_word(word: *mut ()) -> Self {
        // SAFETY: passed on: it was such a pointer.
        Site(unsafe { core::mem::transmute::<*mut (), fn() -> &'static str>(word) })
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Site) -> bool {
        self.function() == other.function()
    }
}

/// The name as programmers write it: `page_heap::runs::PageHeap::free`, without package, type arguments and closures.
impl fmt::Display for Site {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, function) = owner_and_function(self.function());
        let name = name.split_once("::").map_or(name, |(_package, name)| name);
        let mut depth = 0;
        for letter in name.chars() {
            match letter {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ if depth == 0 => out.write_char(letter)?,
                _ => {}
            }
        }
        function.map_or(Ok(()), |function| write!(out, "::{function}"))
    }
}

/// The text before and after the first mark. Core's search for a text takes 4 KiB of code.
fn cut<'a>(name: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let at = name.as_bytes().windows(mark.len()).position(|part| part == mark.as_bytes())?;
    Some((name.get(..at)?, name.get(at + mark.len()..)?))
}

/// The text before and after the last `>::`.
fn after_type(name: &str) -> Option<(&str, &str)> {
    let at = name.as_bytes().windows(3).rposition(|end| end == b">::")?;
    Some((name.get(..at)?, name.get(at + 3..)?))
}

/// Path of a type and name of its function, if the compiler's name does not just join them.
fn owner_and_function(name: &str) -> (&str, Option<&str>) {
    // `<a::b::Type as c::Trait>::function`: a trait's function.
    let of_trait = || {
        let (owner, rest) = cut(name.strip_prefix('<')?, " as ")?;
        Some((owner, after_type(rest)?.1))
    };
    // `d::<impl a::b::Type>::function`, `d::<impl c::Trait for a::b::Type>::function`: another module than the type's.
    let of_other_module = || {
        let (of, function) = after_type(cut(name, "<impl ")?.1)?;
        Some((cut(of, " for ").map_or(of, |(_trait, owner)| owner), function))
    };
    match of_trait().or_else(of_other_module) {
        Some((owner, function)) => (owner, Some(function)),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    struct Of<'a, T>(&'a T);

    impl<T> Of<'_, T> {
        fn method<R>(&self, _: R) -> Site {
            let _ = self.0;
            here!()
        }

        fn closure(&self) -> Option<Site> {
            Some(()).and_then(|()| Some(()).map(|()| here!()))
        }
    }

    mod elsewhere {
        use super::*;

        impl<T> Of<'_, T> {
            pub(super) fn method_elsewhere(&self) -> Site {
                here!()
            }
        }

        impl<T> Iterator for Of<'_, T> {
            type Item = Site;

            fn next(&mut self) -> Option<Site> {
                Some(here!())
            }
        }
    }

    #[test]
    fn sites_are_named_by_their_functions() {
        let mut of = Of(&0);
        for (site, name) in [
            (of.method(""), "Of::method"),
            (of.closure().unwrap(), "Of::closure"),
            (of.method_elsewhere(), "Of::method_elsewhere"),
            (of.next().unwrap(), "Of::next"),
            (here!(), "sites_are_named_by_their_functions"),
        ] {
            assert_eq!(site.to_string(), std::format!("sync::site::tests::{name}"));
        }
        assert_eq!(Some(()).map(|()| here!()), Some(here!()), "in one function");
        assert_eq!(of.closure(), of.closure());
        assert_ne!(of.closure(), Some(of.method(0)));
    }
}
