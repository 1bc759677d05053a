//! What was found of one item, and what it means.
//!
//! An item never ends the examination: what cannot be told is a finding too, with the reason.

use serde::Serialize;
use serde_json::Value;

use super::tree::Unread;

/// What an item comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All that the runtime can make use of is there.
    Fine,
    /// It could not be told.
    Unknown,
    /// It works, but slower or with less.
    Less,
    /// It will not work.
    Fails,
}

impl Verdict {
    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Unknown => "unknown",
            Verdict::Less => "with less",
            Verdict::Fails => "fails",
        }
    }
}

/// One item. The names of its fields are those of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Which item; stays the same.
    pub item: &'static str,
    /// What it comes to.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What the runtime does about it.
    pub meaning: String,
    /// What the user can do, if anything.
    pub advice: Option<String>,
    /// The same for programs: an object, whose members depend on the item.
    pub facts: Value,
}

impl Finding {
    /// Something that is as it should be, or does not matter.
    pub fn fine(item: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            item,
            verdict: Verdict::Fine,
            found: found.into(),
            meaning: meaning.into(),
            advice: None,
            facts: Value::Object(serde_json::Map::new()),
        }
    }

    /// Something that could not be told.
    pub fn unknown(item: &'static str, why: &Unread, meaning: impl Into<String>) -> Self {
        Self::fine(item, format!("unknown: {why}"), meaning).but(Verdict::Unknown)
    }

    /// With another verdict.
    pub fn but(self, verdict: Verdict) -> Self {
        Self { verdict, ..self }
    }

    /// With something that the user can do.
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// With an object for programs.
    pub fn with(self, facts: Value) -> Self {
        Self { facts, ..self }
    }
}
