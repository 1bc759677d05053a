//! Rules: what `COMMENSAL_CONF` says of single caches, as `cache.NAME.OPTION:VALUE`, where NAME may end with `*`.
//!
//! Looked up when a cache is created, so that they hold in programs that are linked with the runtime, too. Of several rules that fit, the
//! last one holds.

use super::debug::Options;
use machine::process;

/// Declares keys: what each does, the values that it may have, and the one that it has if nobody says. The library keeps keys and values, in one text; all of it is
/// in docs/reference/conf.md, which `cargo xtask reference` makes.
macro_rules! keys {
    ($($(#[doc = $says:literal])+ $key:literal: $values:literal = $usual:expr,)*) => {
        $crate::slab::rules::Keys(concat!($($key, ": ", $values, "\n"),*))
    };
}
pub(crate) use keys;

/// The options, with the values that they may have.
pub const OPTIONS: Keys = keys! {
    /// `off` serves an object cache from the general size classes: so `commensal compare --arm` tells whether one of its own pays.
    "dedicated": "on or off" = "on",
    /// How the cache watches its users: objects lie between red zones, are poisoned while nobody should use them, remember who allocated and who freed them, and
    /// wait before they are used again. Misuse ends the program. `malloc-64` and its like are the names of the general classes.
    "debug": "off, all, or some of redzone, poison, track, quarantine, joined by '+'" = "off",
};

/// What there is to say, and the values that it may have, as `key: values` in lines. In one text, as a table of texts is one of
/// addresses; see [`Word`](crate::observe::Word).
#[derive(Clone, Copy, Debug)]
pub struct Keys(pub &'static str);

impl Keys {
    /// The keys.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        self.pairs().map(|(key, _)| key)
    }

    /// The values that a key may have; none: there is no such key.
    pub fn values_of(self, key: &str) -> Option<&'static str> {
        self.pairs().find(|&(known, _)| known == key).map(|(_, values)| values)
    }

    fn pairs(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.lines().filter_map(|line| line.split_once(": "))
    }
}

/// What holds for a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether it has objects of its own, and not those of a general class.
    pub is_dedicated: bool,
    /// How it watches its users. Then it has objects of its own in any case.
    pub debug: Options,
}

/// Why a rule is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRule<'a> {
    /// There is no such option.
    Option(&'a str),
    /// The option, which there is, cannot have this value.
    Value(&'a str),
}

impl Rules {
    const NONE: Self = Rules { is_dedicated: true, debug: Options::NONE };

    /// Those that the environment has for a cache.
    pub(super) fn of(name: &[u8]) -> Self {
        let conf = process::environment(c"COMMENSAL_CONF").map_or(&b""[..], |conf| conf.to_bytes());
        Self::among(core::str::from_utf8(conf).unwrap_or(""), name)
    }

    fn among(conf: &str, name: &[u8]) -> Self {
        let mut rules = Self::NONE;
        for (key, value) in conf.split(',').filter_map(|pair| pair.split_once(':')) {
            if let Some((pattern, option)) = split(key)
                && fits(pattern.as_bytes(), name)
            {
                // Who reads the configuration complains.
                let _ = rules.apply(option, value);
            }
        }
        rules
    }

    fn apply<'a>(&mut self, option: &'a str, value: &str) -> Result<(), NoRule<'a>> {
        match (option, value) {
            ("dedicated", "on") => self.is_dedicated = true,
            ("dedicated", "off") => self.is_dedicated = false,
            ("debug", value) => self.debug = Options::parse(value).ok_or(NoRule::Value(option))?,
            _ if OPTIONS.values_of(option).is_some() => return Err(NoRule::Value(option)),
            _ => return Err(NoRule::Option(option)),
        }
        Ok(())
    }
}

/// Whether a key speaks of caches; then, whether it is a rule with this value.
pub fn check<'a>(key: &'a str, value: &str) -> Option<Result<(), NoRule<'a>>> {
    let (_, option) = split(key)?;
    let mut unused = Rules::NONE;
    Some(unused.apply(option, value))
}

/// The pattern of names and the option of a rule's key.
fn split(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("cache.")?.rsplit_once('.')
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_fits_holds() {
        let dedicated = |conf, name: &str| Rules::among(conf, name.as_bytes()).is_dedicated;
        assert!(dedicated("", "context"));
        assert!(!dedicated("cache.context.dedicated:off", "context"));
        assert!(dedicated("cache.context.dedicated:off", "contexts"));
        assert!(!dedicated("stats:exit,cache.net/*.dedicated:off", "net/tcp.v4"));
        assert!(!dedicated("cache.net/tcp.v4.dedicated:off", "net/tcp.v4"));
        assert!(dedicated("cache.*.dedicated:off,cache.context.dedicated:on", "context"));
        assert!(dedicated("cache.context.dedicated:perhaps,cache.context.didicated:off", "context"));
    }

    #[test]
    fn what_is_no_rule_is_told() {
        assert_eq!(check("stats", "exit"), None);
        assert_eq!(check("cache.x.dedicated", "on"), Some(Ok(())));
        assert_eq!(check("cache.x.dedicated", "yes"), Some(Err(NoRule::Value("dedicated"))));
        assert_eq!(check("cache.x.debog", "on"), Some(Err(NoRule::Option("debog"))));
    }
}
